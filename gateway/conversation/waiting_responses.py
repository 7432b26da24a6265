"""Responses on their way to the store, one or several that go together."""

from collections.abc import Callable
from time import monotonic

from gateway.stores.protocols import CommonValue, join_values

OVERHEAD = 200  # bytes of a value besides itself


class WaitingResponse:
    """The values of a response that wait for the store; those of others may go with them."""

    __slots__ = ("counted", "held", "key", "number", "shared", "since", "values", "workspace")

    def __init__(self, key: str, workspace: str, values: dict[str, bytes], counted: int, number: int = 1) -> None:
        self.key, self.workspace, self.values = key, workspace, values
        self.shared: list[CommonValue] = []
        self.counted = counted  # bytes, as the quota counts them
        self.held = 0  # bytes, as the queue counts them
        self.number = number  # of responses
        self.since = monotonic()

    @property
    def weight(self) -> int:
        """Bytes in memory, roughly."""
        return self.counted + OVERHEAD * (len(self.values) + sum(one.ends.count(" ") + 1 for one in self.shared))

    def unshare(self) -> None:
        """Put each value under its own key."""
        if self.shared:
            self.values, self.shared = join_values(self.values, self.shared), []


# Adds what is kept of a response to that of others, if anything is.
Describe = Callable[[WaitingResponse], None]
