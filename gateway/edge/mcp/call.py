"""One request of an MCP client: who asks in which scope, and the account of it."""

from collections.abc import Callable
from typing import Any

import msgspec

from gateway.domain.exchange import Exchange
from gateway.edge.recorder import RequestOutcome


class McpCall(msgspec.Struct):
    """What the handlers of one request work with."""

    exchange: Exchange
    outcome: RequestOutcome

    def note(self, method: str, about: str) -> None:
        """Note what was asked for, for the log."""
        self.outcome.detail = f"{method} {about}" if about else method


FindCall = Callable[[Any], McpCall]  # from the transport's request; None: the transport has none
