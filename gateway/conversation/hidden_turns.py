"""Hidden turns: what the client never saw of an exchange, kept until it returns its own tools' results."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson
from msgspec import Raw

TTL = 3600.0  # seconds


@dataclass(frozen=True, slots=True)
class ConversationOwner:
    """Whose hidden turns: they are never visible across workspaces, callers or sessions."""

    workspace: str
    principal: str
    session: str

    def key(self, call_ids: Iterable[str]) -> str:
        parts = [self.workspace, self.principal, self.session, *sorted(call_ids)]
        return "hidden:" + hashlib.sha256(orjson.dumps(parts)).hexdigest()


@dataclass(frozen=True, slots=True)
class HiddenTurn:
    """The transcript that stands in place of the assistant message which the client saw."""

    calls: tuple[tuple[str, str, str], ...]  # id, name, arguments of the client's calls
    messages: tuple[bytes, ...]  # JSON, ending with our own tools' results

    def dump(self) -> bytes:
        return msgspec.json.encode({"calls": self.calls, "messages": [Raw(message) for message in self.messages]})


class _Stored(msgspec.Struct):
    calls: list[tuple[str, str, str]]
    messages: list[Raw]


class _Function(msgspec.Struct):
    name: str = ""
    arguments: str = ""


class _SeenCall(msgspec.Struct):
    id: str = ""
    function: _Function = msgspec.field(default_factory=_Function)


class _SeenMessage(msgspec.Struct):
    role: str = ""
    tool_calls: list[_SeenCall] | None = None


_seen = msgspec.json.Decoder(_SeenMessage)
_stored = msgspec.json.Decoder(_Stored)


def calls_in(messages: Sequence[Raw]) -> dict[int, list[_SeenCall]]:
    """The tool calls of each assistant message that has any, by its position."""
    found = {}
    for position, message in enumerate(messages):
        if b'"tool_calls"' not in bytes(message):
            continue
        try:
            seen = _seen.decode(message)
        except msgspec.MsgspecError:
            continue  # not a shape we ever sent: the upstream judges it
        if seen.role == "assistant" and seen.tool_calls:
            found[position] = seen.tool_calls
    return found


def expand(messages: Sequence[Raw], calls: Mapping[int, Sequence[_SeenCall]], kept: Mapping[int, bytes]) -> list[Raw]:
    """The history with each kept transcript in place of the assistant message that the client saw."""
    history: list[Raw] = []
    for position, message in enumerate(messages):
        stored = _stored.decode(kept[position]) if position in kept else None
        if stored is not None and same_calls(stored.calls, calls[position]):
            history += stored.messages
        else:
            history.append(message)
    return history


def same_calls(kept: Sequence[tuple[str, str, str]], seen: Sequence[_SeenCall]) -> bool:
    """Whether these are the calls we passed on: some providers reuse ids such as `call_0`."""
    by_id = {identity: (name, parsed(arguments)) for identity, name, arguments in kept}
    return by_id == {call.id: (call.function.name, parsed(call.function.arguments)) for call in seen}


def parsed(arguments: str) -> Any:
    """Arguments as a value, since clients may write the same JSON differently."""
    try:
        return orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments
