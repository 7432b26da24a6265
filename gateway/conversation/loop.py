"""The turn loop, without I/O: an upstream's bytes go in, the client's bytes and the next step come out.

A driver calls `build_request()` for the body of the next upstream call, passes the reply in (`StreamLoop.feed` and
`end`, or `ReplyLoop.take`) and does what the returned step says: run tools and `resume`, call again, or finish.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.calls import FunctionCall, ToolCall
from gateway.conversation.hidden_turn import HiddenMessage, HiddenTurn, OwnResult
from gateway.conversation.history import read_spoken_text
from gateway.domain.agent import TextJoin
from gateway.domain.chat import ChatRequest, OutgoingBody
from gateway.domain.injection import ClientTools, OwnTools
from gateway.domain.tool_result import ToolResult
from gateway.domain.upstream import Capabilities
from gateway.errors import LoopLimit, UpstreamInvalid

TEXT_SEPARATOR = "\n\n"  # between the texts of several turns
JOINED_FIELDS = ("content", "reasoning_content", "reasoning", "refusal")  # texts of a message that turns add to
CUT_SHORT_REASONS = frozenset({"length", "content_filter"})  # the model did not finish what it was saying
REWRITTEN = ("tools", "tool_choice")  # fields that differ from turn to turn
MAX_OWN_CALLS = 32  # of one turn that are run; models rarely make more than a few
REPLY_BYTES = 64 * 1024 * 1024
MAX_USAGE_DEPTH = 8  # levels of a usage object that are added up
NOT_RUN = ToolResult(
    f"Error: not run, since only {MAX_OWN_CALLS} calls are run at a time. Call again if you still need this.",
    failed=True,
)

_encode = msgspec.json.Encoder().encode
_decode_message: Callable[[bytes], dict[str, Any]] = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list: Callable[[Raw], list[Raw]] = msgspec.json.Decoder(list[Raw]).decode


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """How much one exchange may take."""

    turns: int = 5  # upstream calls
    reply_bytes: int = REPLY_BYTES  # of all turns: most of it has to be kept until we know what is hidden


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """What the turn loop needs to know of an exchange."""

    fields: dict[str, Any]  # the outgoing body without messages, tools and tool_choice
    messages: list[Raw]
    own_tools: tuple[Raw, ...]
    own_names: frozenset[str]
    client_tools: tuple[Raw, ...] = ()
    tool_choice: Raw | None = None
    limits: TurnLimits = TurnLimits()
    forces_usage: bool = False  # we ask for one to know what the hidden turns cost
    last_text_only: bool = False  # texts of several turns cannot be joined: the answer is JSON, or the agent says so


def plan_turns(
    request: ChatRequest,
    outgoing: OutgoingBody,
    client: ClientTools,
    own: OwnTools | None,
    can: Capabilities,
    limits: TurnLimits,
    join: TextJoin = TextJoin.ALL,
) -> LoopPlan | None:
    """The plan of an exchange in which our tools are registered; None: there is nothing to plan, it is a relay."""
    if own is None:
        return None
    return LoopPlan(
        fields={name: value for name, value in outgoing.fields.items() if name not in REWRITTEN},
        messages=outgoing.messages,
        own_tools=own.schemas,
        own_names=own.names,
        client_tools=client.tools,
        tool_choice=client.choice,
        limits=limits,
        forces_usage=request.stream and can.stream_usage and not request.wants_usage,
        last_text_only=join is TextJoin.LAST or request.wants_json,
    )


@dataclass(frozen=True, slots=True)
class RunToolsStep:
    """Run these calls and pass their results to `resume`, in this order."""

    calls: tuple[FunctionCall, ...]


@dataclass(frozen=True, slots=True)
class NextTurnStep:
    """Send `build_request()` upstream."""


@dataclass(frozen=True, slots=True)
class FinishStep:
    """Send `data` to the client and stop; `hidden` must be stored before that."""

    data: bytes
    hidden: HiddenTurn | None = None


Step = RunToolsStep | NextTurnStep | FinishStep


@dataclass(slots=True)
class Turn:
    """One upstream round trip as far as the loop is concerned."""

    message: bytes  # the assistant's message as it goes back upstream
    calls: list[ToolCall]
    text: str
    finish_reason: str | None
    usage: dict[str, Any] | None = None

    @property
    def own_calls(self) -> list[ToolCall]:
        return [call for call in self.calls if call.own]

    @property
    def client_calls(self) -> list[ToolCall]:
        return [call for call in self.calls if not call.own]


@dataclass
class TurnLoop:
    """What both loops share: the transcript, the turn count, usage, and the decision after each turn."""

    plan: LoopPlan
    turns: int = 0
    usages: list[dict[str, Any]] = field(default_factory=list)
    limited: bool = False  # the model went on calling our tools in the last turn
    _added: list[bytes] = field(default_factory=list)  # messages since the client's last one
    _hidden: list[HiddenMessage] = field(default_factory=list)  # the same, as they are stored
    _turn: Turn | None = None
    _received: int = 0  # bytes of the upstream's replies

    def build_request(self) -> bytes:
        """The body of the next upstream call."""
        self.turns += 1
        plan = self.plan
        body = dict(plan.fields)
        body["messages"] = [*plan.messages, *map(Raw, self._added)]
        if self._is_last and plan.client_tools:
            body["tools"] = plan.client_tools
        else:
            body["tools"] = plan.client_tools + plan.own_tools
        if self._is_last and not plan.client_tools:
            body["tool_choice"] = "none"
        elif plan.tool_choice is not None:
            body["tool_choice"] = plan.tool_choice
        if plan.forces_usage:
            body["stream_options"] = request_usage(plan.fields.get("stream_options"))
        return _encode(body)

    def resume(self, results: list[ToolResult]) -> Step:
        """Take the results of the calls that `RunToolsStep` named; the model is told of those that were not run."""
        turn = self._turn
        assert turn is not None
        own = [position for position, call in enumerate(turn.calls) if call.own]
        results = [*results, *[NOT_RUN] * len(own[MAX_OWN_CALLS:])]
        answered = [OwnResult(at, one.text, one.resources) for at, one in zip(own, results, strict=True)]
        if added := {name: one for result in results for name, one in result.added.items()}:
            names = self.plan.own_names.union(added)
            self.plan = replace(self.plan, own_tools=(*self.plan.own_tools, *added.values()), own_names=names)
        self._hidden.append(HiddenMessage(Raw(turn.message), tuple(answered)))
        self._added.append(turn.message)
        for result in answered:
            message = {"role": "tool", "tool_call_id": turn.calls[result.position].id, "content": result.text}
            self._added.append(_encode(message))
        return self._finish(turn, self._hidden) if turn.client_calls else NextTurnStep()

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
        if own and turn.finish_reason not in CUT_SHORT_REASONS:
            if not self._is_last:
                return RunToolsStep(tuple(call.make_function_call() for call in own[:MAX_OWN_CALLS]))
            self._give_up(turn)
        if own:
            turn.message = remove_own_calls(turn)
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
        turn.finish_reason = "stop"

    def _finish(self, turn: Turn, messages: list[HiddenMessage]) -> FinishStep:
        hidden = self._hide(turn, messages) if messages and turn.client_calls else None
        return FinishStep(self._build_last_bytes(turn), hidden)

    def _hide(self, turn: Turn, messages: list[HiddenMessage]) -> HiddenTurn:
        calls = tuple(call.make_function_call() for call in turn.client_calls)
        shown = messages[-1:] if self.plan.last_text_only else messages
        text = "".join(read_spoken_text(one.message) for one in shown)
        return HiddenTurn(calls, text, tuple(messages))

    def _build_last_bytes(self, turn: Turn) -> bytes:
        """What the client still has to be sent once nothing else is to be done."""
        raise NotImplementedError


def has_value(fields: dict[str, Any], name: str) -> bool:
    """Whether a raw field is there and not null."""
    raw = fields.get(name)
    return raw is not None and bytes(raw) != b"null"


def remove_own_calls(turn: Turn) -> bytes:
    """The assistant's message without calls of ours that were not run: no result would follow them."""
    message = _decode_message(turn.message)
    calls = _decode_list(message["tool_calls"])
    message["tool_calls"] = [raw for raw, call in zip(calls, turn.calls, strict=True) if not call.own]
    return _encode(message)


def request_usage(options: Any) -> dict[str, Any]:
    """The client's stream_options, asking for a usage chunk."""
    known = msgspec.json.decode(options) if isinstance(options, Raw) else options
    return {**(known if isinstance(known, dict) else {}), "include_usage": True}


def add_usage(one: Any, other: Any, depth: int = MAX_USAGE_DEPTH) -> Any:
    """Two usage objects as one: numbers are added, anything else is the later one's."""
    if isinstance(one, dict) and isinstance(other, dict) and depth:
        return {
            key: add_usage(one[key], other[key], depth - 1)
            if key in one and key in other
            else other.get(key, one.get(key))
            for key in (*one, *(key for key in other if key not in one))
        }
    if is_number(one) and is_number(other):
        return one + other
    return one if other is None else other


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
