"""One upstream round trip, and what the turn loop is told about an exchange; the same in all dialects."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

if TYPE_CHECKING:
    from gateway.conversation.dialect import Dialect

TEXT_SEPARATOR = "\n\n"  # between the texts of several turns
REPLY_BYTES = 64 * 1024 * 1024
MAX_USAGE_DEPTH = 8  # levels of a usage object that are added up
LARGEST_NUMBER = 2**1000  # in one; sums of larger ones may be beyond all floats, or have more digits than Python writes


class FunctionCall(msgspec.Struct, frozen=True, array_like=True):
    """A complete call, as it is run or stored."""

    id: str
    name: str
    arguments: str


class TurnCall(msgspec.Struct):
    """A call of one turn, and whether it is for a tool of ours."""

    call: FunctionCall
    own: bool


class Turn(msgspec.Struct):
    """One upstream round trip as far as the loop is concerned."""

    message: bytes  # what the model wrote, as it goes back upstream
    calls: list[TurnCall]
    text: str
    cut_short: bool = False  # the model did not finish what it was saying
    usage: dict[str, Any] | None = None
    id: str = ""  # of the reply, where a dialect can refer to it
    gave_up: bool = False  # its calls of ours were dropped: the text is the answer

    @property
    def own_calls(self) -> list[FunctionCall]:
        return [one.call for one in self.calls if one.own]

    @property
    def client_calls(self) -> list[FunctionCall]:
        return [one.call for one in self.calls if not one.own]


class TurnStart(msgspec.Struct):
    """What is known of a turn before its reply comes."""

    number: int  # from 1
    is_last: bool  # nothing of ours is run after it
    own_names: frozenset[str]
    spent: dict[str, Any] | None = None  # the usage of the turns before it


FIRST_TURN = TurnStart(0, False, frozenset())


class TurnLimits(msgspec.Struct, frozen=True):
    """How much one exchange may take."""

    turns: int = 5  # upstream calls
    reply_bytes: int = REPLY_BYTES  # of all turns: most of it has to be kept until we know what is hidden


class LoopPlan(msgspec.Struct, frozen=True):
    """What the turn loop needs to know of an exchange."""

    dialect: "Dialect"
    fields: dict[str, Any]  # the outgoing body without messages, tools and tool_choice
    messages: list[Raw]
    own_tools: tuple[Raw, ...]  # as the dialect writes them
    own_names: frozenset[str]
    client_tools: tuple[Raw, ...] = ()
    tool_choice: Raw | None = None
    limits: TurnLimits = TurnLimits()
    forces_usage: bool = False  # we ask for one to know what the hidden turns cost
    client_fields: Mapping[str, Raw] = msgspec.field(default_factory=dict)  # of the request as the client sent it
    last_text_only: bool = False  # texts of several turns cannot be joined: the answer is JSON, or the agent says so


def add_usage(one: Any, other: Any, depth: int = MAX_USAGE_DEPTH) -> Any:
    """Two usage objects as one: numbers within reason are added, anything else is the later one's."""
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
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST_NUMBER


def has_value(fields: dict[str, Any], name: str) -> bool:
    """Whether a raw field is there and not null."""
    raw = fields.get(name)
    return raw is not None and bytes(raw) != b"null"


def has_text(fields: dict[str, Any], name: str) -> bool:
    """Whether a field of raw values is a text that says something; some providers send "" for what is not known yet."""
    return has_value(fields, name) and bytes(fields[name]) != b'""'
