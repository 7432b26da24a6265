"""Which exchanges are looked at for how much of their resources shows in the answer: few, and bounded."""

from time import perf_counter

from gateway.domain.exchange import Exchange

SAMPLE_RANGE = 16**4
MAX_SAMPLED_REQUEST = 64 * 1024  # bytes: finding the phrases of longer ones takes more than a few milliseconds
# Of a workspace in a second: more tell nothing new, and each takes a tenth of a millisecond, or a whole one with 30 KB.
MAX_SAMPLES, MAX_SAMPLED_BYTES = 10, 64 * 1024


class AnswerSampler:
    """Takes a share of the exchanges, by the random ends of their ids."""

    def __init__(self, share: float) -> None:
        bound = round(share * SAMPLE_RANGE)
        self.end = f"{bound:04x}" if bound < SAMPLE_RANGE else "g"  # after the ends of ids that are taken
        self._second, self._taken = 0, dict[str, list[int]]()  # bytes of requests in that second, by workspace

    def take(self, exchange: Exchange, request: bytes) -> bool:
        """Whether this one is taken; where nothing was injected or the request is long, there is nothing to see."""
        if exchange.id[-4:] >= self.end or exchange.tokens == 0 or len(request) > MAX_SAMPLED_REQUEST:
            return False
        workspace, second = exchange.principal.workspace, int(perf_counter())
        if second != self._second:
            self._second, self._taken = second, {}
        taken = self._taken.setdefault(workspace, [])
        if len(taken) >= MAX_SAMPLES or sum(taken) + len(request) > MAX_SAMPLED_BYTES:
            return False
        taken.append(len(request))
        return True
