"""The turn loop, without I/O: an upstream's bytes go in, the client's bytes and the next step come out.

A driver calls `build_request()` for the body of the next upstream call, passes the reply in (`StreamLoop.feed` and
`end`, or `ReplyLoop.take`) and does what the returned step says: run tools and `resume`, call again, or finish. How
bodies and events are read and written is the business of the dialect.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from gateway.conversation.dialect import Dialect
from gateway.conversation.hidden_turn import HiddenMessage, HiddenTurn, OwnResult
from gateway.conversation.turn import FunctionCall, LoopPlan, Turn, TurnLimits, TurnStart, add_usage
from gateway.domain.agent import TextJoin
from gateway.domain.chat import ChatRequest, OutgoingBody
from gateway.domain.injection import ClientTools, OwnTools
from gateway.domain.tool_result import ToolResult
from gateway.domain.upstream import Capabilities
from gateway.errors import LoopLimit, UpstreamInvalid

REWRITTEN = ("tools", "tool_choice")  # fields that differ from turn to turn
MAX_OWN_CALLS = 32  # of one turn that are run; models rarely make more than a few
NOT_RUN = ToolResult(
    f"Error: not run, since only {MAX_OWN_CALLS} calls are run at a time. Call again if you still need this.",
    failed=True,
)


class LoopTerms(msgspec.Struct):
    """What an exchange asks of its turn loop, besides the bodies."""

    can: Capabilities
    limits: TurnLimits
    join: TextJoin = TextJoin.ALL


def plan_turns(
    dialect: Dialect,
    request: ChatRequest,
    outgoing: OutgoingBody,
    client: ClientTools,
    own: OwnTools,
    terms: LoopTerms,
) -> LoopPlan:
    """The plan of an exchange in which our tools are registered."""
    return LoopPlan(
        dialect,
        fields={name: value for name, value in outgoing.fields.items() if name not in REWRITTEN},
        messages=outgoing.messages,
        own_tools=dialect.write_tools(own.schemas),
        own_names=own.names,
        client_tools=client.tools,
        tool_choice=client.choice,
        limits=terms.limits,
        forces_usage=dialect.forces_usage(request, terms.can),
        client_fields=request.fields,
        last_text_only=terms.join is TextJoin.LAST or dialect.wants_json(request),
    )


class RunToolsStep(msgspec.Struct, frozen=True):
    """Run these calls and pass their results to `resume`, in this order."""

    calls: tuple[FunctionCall, ...]


class NextTurnStep(msgspec.Struct, frozen=True):
    """Send `build_request()` upstream."""


class FinishStep(msgspec.Struct, frozen=True):
    """Send `data` to the client and stop; `hidden` must be stored before that."""

    data: bytes
    hidden: HiddenTurn | None = None


Step = RunToolsStep | NextTurnStep | FinishStep


class TurnLoop:
    """What both loops share: the transcript, the turn count, usage, and the decision after each turn."""

    def __init__(self, plan: LoopPlan) -> None:
        self.plan = plan
        self.turns = 0
        self.usages: list[dict[str, Any]] = []
        self.limited = False  # the model went on calling our tools in the last turn
        self.pending: list[bytes] = []  # results of our calls in the last turn
        self._added: list[bytes] = []  # to the conversation since the client's last message
        self._hidden: list[HiddenMessage] = []  # the same, as they are stored
        self._turn: Turn | None = None
        self._received = 0  # bytes of the upstream's replies

    def build_request(self) -> bytes:
        """The body of the next upstream call."""
        self.turns += 1
        return self.plan.dialect.encode_turn(self.plan, self._added, is_last=self._is_last)

    def resume(self, results: list[ToolResult]) -> Step:
        """Take the results of the calls that `RunToolsStep` named; the model is told of those that were not run."""
        turn, plan = self._turn, self.plan
        assert turn is not None
        own = [position for position, call in enumerate(turn.calls) if call.own]
        results = [*results, *[NOT_RUN] * len(own[MAX_OWN_CALLS:])]
        answered = [OwnResult(at, one.text, one.resources) for at, one in zip(own, results, strict=True)]
        if added := {name: one for result in results for name, one in result.added.items()}:
            tools = (*plan.own_tools, *plan.dialect.write_tools([*added.values()]))
            self.plan = replace(plan, own_tools=tools, own_names=plan.own_names.union(added))
        self._hidden.append(HiddenMessage(Raw(turn.message), tuple(answered)))
        entries = plan.dialect.write_turn(turn, answered)
        self._added += entries
        if turn.client_calls:
            self.pending = entries[len(entries) - len(answered) :]
        return self._finish(turn, self._hidden) if turn.client_calls else NextTurnStep()

    def _start_turn(self) -> TurnStart:
        return TurnStart(self.turns, self._is_last, self.plan.own_names, self.usage)

    @property
    def hidden(self) -> Sequence[HiddenMessage]:
        """The turns in which our tools were run, with their results."""
        return self._hidden

    @property
    def last_id(self) -> str:
        """The upstream's id of the last reply."""
        return self._turn.id if self._turn is not None else ""

    @property
    def is_shown_as_told(self) -> bool:
        """Whether the client sees the output of the last reply as the upstream wrote it, and no other."""
        return self.turns == 1 and self._turn is not None and not self._turn.own_calls

    def list_added(self) -> list[bytes]:
        """What all turns added to the conversation, once it is over."""
        turn = self._turn
        is_open = turn is not None and not self.pending
        return [*self._added, *(self.plan.dialect.write_turn(turn, ()) if is_open and turn is not None else ())]

    def _count(self, data: bytes) -> None:
        self._received += len(data)
        limit = self.plan.limits.reply_bytes
        if self._received > limit:
            raise UpstreamInvalid(f"The upstream sent more than {limit} bytes in {self.turns} turn(s).")

    @property
    def usage(self) -> dict[str, Any] | None:
        """What all turns used together."""
        total: dict[str, Any] | None = None
        for usage in self.usages:
            total = usage if total is None else add_usage(total, usage)
        return total

    @property
    def _is_last(self) -> bool:
        return self.turns >= self.plan.limits.turns

    def _decide(self, turn: Turn) -> Step:
        self._turn = turn
        if turn.usage is not None:
            self.usages.append(turn.usage)
        own = turn.own_calls
        if own and not turn.cut_short:
            if not self._is_last:
                return RunToolsStep(tuple(own[:MAX_OWN_CALLS]))
            self._give_up(turn)
        if own:
            turn.message = self.plan.dialect.remove_own_calls(turn)
        return self._finish(turn, [*self._hidden, HiddenMessage(Raw(turn.message))] if self._hidden else [])

    def _give_up(self, turn: Turn) -> None:
        """The model calls our tools although it must not: whatever else it said is the answer."""
        self.limited = True
        if turn.client_calls:
            return
        if not turn.text:
            raise LoopLimit(
                f"The model still asked for context in the last of {self.turns} turns. Raise max_turns or ask again."
            )
        turn.gave_up = True

    def _finish(self, turn: Turn, messages: list[HiddenMessage]) -> FinishStep:
        hidden = self._hide(turn, messages) if messages and turn.client_calls else None
        return FinishStep(self._build_last_bytes(turn), hidden)

    def _hide(self, turn: Turn, messages: list[HiddenMessage]) -> HiddenTurn:
        shown = messages[-1:] if self.plan.last_text_only else messages
        text = "".join(self.plan.dialect.read_spoken_text(one.message) for one in shown)
        return HiddenTurn(tuple(turn.client_calls), text, tuple(messages))

    def _build_last_bytes(self, turn: Turn) -> bytes:
        """What the client still has to be sent once nothing else is to be done."""
        raise NotImplementedError
