"""What the tokens of an exchange cost."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import convert

from gateway.domain.price import ModelPrice, TokenCount


class PriceTable(msgspec.Struct, frozen=True):
    """Prices by model; a name that ends in `*` stands for all that begin so, and the longest that fits wins."""

    prices: Mapping[str, ModelPrice]
    find_known: Callable[[str], ModelPrice | None] = lambda model: None  # for models that the table does not name

    def find(self, model: str) -> ModelPrice | None:
        if not self.prices:
            return self.find_known(model)
        exact = self.prices.get(model)
        if exact is not None:
            return exact
        prefixes = [name for name in self.prices if name.endswith("*") and model.startswith(name[:-1])]
        return self.prices[max(prefixes, key=len)] if prefixes else self.find_known(model)


MAX_COUNT = 2**53  # tokens; nobody has counted more of them
NO_TOKENS = TokenCount()

Count = Annotated[int, msgspec.Meta(gt=0, le=MAX_COUNT)]
Nothing = Literal[0, None]


class InputDetails(msgspec.Struct, gc=False):
    """What of the input a cache had."""

    cached_tokens: Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)] = 0


class ChatUsage(
    msgspec.Struct,
    gc=False,
    rename={"prompt": "prompt_tokens", "completion": "completion_tokens", "details": "prompt_tokens_details"},
):
    """What chat completions usually report, and nothing that could mean something else."""

    prompt: Count
    completion: Count
    details: InputDetails | None = None
    input_tokens_details: None = None
    cache_read_input_tokens: Nothing = None


class ResponseUsage(
    msgspec.Struct,
    gc=False,
    rename={"prompt": "input_tokens", "completion": "output_tokens", "details": "input_tokens_details"},
):
    """What responses and messages usually report, and nothing that could mean something else."""

    prompt: Count
    completion: Count
    details: InputDetails | None = None
    prompt_tokens_details: None = None
    completion_tokens: Nothing = None
    cache_read_input_tokens: Nothing = None
    cache_creation_input_tokens: Nothing = None


def count_tokens(usage: Mapping[str, Any] | None) -> TokenCount:
    """The tokens of a usage object in the words of any provider; what it does not say counts as 0."""
    if not usage:
        return NO_TOKENS
    try:
        is_chat = "prompt_tokens" in usage
        usual = convert(usage, ChatUsage) if is_chat else convert(usage, ResponseUsage)
    except (msgspec.ValidationError, UnicodeError):
        return count_one_by_one(usage)
    if usual.details is None:
        return TokenCount(usual.prompt, 0, usual.completion)
    return TokenCount(usual.prompt, min(usual.details.cached_tokens, usual.prompt), usual.completion)


def count_one_by_one(usage: Mapping[str, Any]) -> TokenCount:
    """The tokens of a usage object of any shape."""
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    cached = read_count(details, "cached_tokens") if details else 0
    if not cached and "cache_read_input_tokens" in usage:
        cached = read_count(usage, "cache_read_input_tokens")
    prompt = read_count(usage, "prompt_tokens") or count_input(usage)
    completion = read_count(usage, "completion_tokens") or read_count(usage, "output_tokens")
    return TokenCount(prompt, min(cached, prompt), completion)


def count_input(usage: Mapping[str, Any]) -> int:
    """Anthropic leaves out of its input tokens what the cache read or wrote."""
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(read_count(usage, name) for name in names)


def read_count(fields: Any, name: str) -> int:
    """A number of a usage object; 0 where it has none, or one that cannot be a count."""
    value = fields.get(name) if type(fields) is dict else None
    return value if type(value) is int and 0 < value <= MAX_COUNT else 0
