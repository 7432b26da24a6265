"""The turn loop for whole replies."""

from gateway.conversation.dialect import ReplyView
from gateway.conversation.loop import NextTurnStep, Step, TurnLoop
from gateway.conversation.turn import LoopPlan, Turn
from gateway.domain.tool_result import ToolResult


class ReplyLoop(TurnLoop):
    """One exchange answered with a single JSON document."""

    def __init__(self, plan: LoopPlan) -> None:
        super().__init__(plan)
        self._view: ReplyView = plan.dialect.open_reply(plan)

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
