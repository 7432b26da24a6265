"""How much fits into a model's context window beside what the client sends and wants to get back."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec

from gateway.domain.chat import ChatRequest
from gateway.domain.scope import Scope

# Tokens of models by how their names begin; the configuration may say otherwise. Other models have no bound.
WINDOWS: Mapping[str, int] = MappingProxyType(
    {
        "gpt-3.5-turbo": 16_385,
        "gpt-4": 8_192,
        "gpt-4-32k": 32_768,
        "gpt-4-turbo": 128_000,
        "gpt-4o": 128_000,
        "gpt-4.1": 1_047_576,
        "gpt-5": 400_000,
        "o1": 200_000,
        "o3": 200_000,
        "o4": 200_000,
        "claude": 200_000,
        "gemini": 1_048_576,
        "llama-3.1": 128_000,
        "llama-3.2": 128_000,
        "llama-3.3": 128_000,
        "mistral-large": 128_000,
    }
)
SMALL_REQUEST = 8_192  # bytes and tokens that fit into the smallest window
STEP = 256  # tokens: budgets that differ by less share what is cached
OUTPUT_FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
LIMITS = frozenset(OUTPUT_FIELDS)
REMEMBERED = 1024  # names of models


class WindowRoom(msgspec.Struct, frozen=True):
    """What the window of a model leaves to the requests of a scope, besides what may be injected."""

    scope: Scope
    tokens: int  # of a request and its answer; a token has at least one byte
    max_bytes: int  # of a request that does not limit its answer

    def certainly_fits(self, request: ChatRequest) -> bool:
        """Whether a request fits by its bytes, so that no tokens have to be counted."""
        if LIMITS.isdisjoint(request.fields):
            return len(request.raw) <= self.max_bytes
        return len(request.raw) + read_output_limit(request, self.scope) <= self.tokens


class WindowTable(msgspec.Struct, frozen=True):
    """Windows by model; a name that ends in `*` stands for all that begin so, and the longest that fits wins."""

    configured: Mapping[str, int] = msgspec.field(default_factory=dict)
    _known: dict[str, int | None] = msgspec.field(default_factory=dict)

    def find(self, model: str) -> int | None:
        """The window of a model in tokens; None if it is not known."""
        name = model.rsplit("/", 1)[-1].lower()[:100]
        if name not in self._known:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[name] = self._look_up(name)
        return self._known[name]

    def may_be_exceeded(self, model: str, request: ChatRequest, scope: Scope, budget: int) -> bool:
        """Whether tokens have to be counted to know that a budget fits; by their bytes most requests do."""
        size = len(request.raw) + budget
        if size <= SMALL_REQUEST and LIMITS.isdisjoint(request.fields):
            return False
        window = self.find(model)
        return window is not None and size + read_output_limit(request, scope) > window

    def measure_room(self, model: str, scope: Scope, budget: int) -> WindowRoom | None:
        """What there is room for besides a budget; None: any request, since the window is not known."""
        window = self.find(model)
        if window is None:
            return None
        usual = max(SMALL_REQUEST, window - find_default_limit(scope))
        return WindowRoom(scope, window - budget, usual - budget)

    def _look_up(self, name: str) -> int | None:
        if name in self.configured:
            return self.configured[name]
        own = {key[:-1]: size for key, size in self.configured.items() if key.endswith("*")}
        for table in (own, WINDOWS):
            prefixes = [prefix for prefix in table if name.startswith(prefix)]
            if prefixes:
                return table[max(prefixes, key=len)]
        return None


def fit_window(request: ChatRequest, scope: Scope, window: int, budget: int, count: Callable[[str], int]) -> int:
    """The budget, or less if the window has no room for all of it."""
    output = read_output_limit(request, scope)
    if len(request.raw) + output + budget <= window:
        return budget  # a token has at least one byte
    room = window - output - count(request.raw.decode("utf-8", "replace"))
    return budget if room >= budget else max(0, room // STEP * STEP)


def read_output_limit(request: ChatRequest, scope: Scope) -> int:
    """The tokens that the answer may take, by the request or what is sent where it says nothing.

    What is no such number is the upstream's business.
    """
    for name in OUTPUT_FIELDS:
        try:
            value = request.get(name)
        except (msgspec.MsgspecError, RecursionError):
            continue
        if type(value) is int and value > 0:
            return value
    return find_default_limit(scope)


def find_default_limit(scope: Scope) -> int:
    """The tokens that the answer may take where the request says nothing; 0: nobody says."""
    return next((one.max_tokens for one in scope.model_defaults if one.max_tokens is not None), 0)
