"""What tokens cost."""

import msgspec

MILLION = 1_000_000


class TokenCount(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The tokens of a call, as its upstream reports them."""

    prompt: int = 0  # cached ones included
    cached: int = 0
    completion: int = 0


class ModelPrice(msgspec.Struct, frozen=True):
    """US dollars per million tokens."""

    input: float
    output: float
    cached_input: float | None = None  # None: as any other input

    def compute_cost(self, tokens: TokenCount) -> float:
        cached = self.input if self.cached_input is None else self.cached_input
        dollars = (tokens.prompt - tokens.cached) * self.input + tokens.cached * cached
        return (dollars + tokens.completion * self.output) / MILLION
