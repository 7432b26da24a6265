"""The turn loop for whole replies."""

from dataclasses import dataclass, field

from gateway.conversation.dialect import ReplyView
from gateway.conversation.loop import NextTurnStep, Step, TurnLoop
from gateway.conversation.turn import Turn
from gateway.domain.tool_result import ToolResult


@dataclass
class ReplyLoop(TurnLoop):
    """One exchange answered with a single JSON document."""

    _view: ReplyView = field(init=False)

    def __post_init__(self) -> None:
        self._view = self.plan.dialect.open_reply(self.plan)

    def take(self, body: bytes) -> Step:
        """Take the whole reply of one upstream call; raises UpstreamInvalid if it is none or too long."""
        self._count(body)
        return self._decide(self._view.take(body, self._start_turn()))

    def resume(self, results: list[ToolResult]) -> Step:
        step = super().resume(results)
        if isinstance(step, NextTurnStep):
            self._view.hide_turn()
        return step

    def _build_last_bytes(self, turn: Turn) -> bytes:
        return self._view.finish(turn, self.usage)
