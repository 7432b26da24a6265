"""Hidden turns: what the client never saw of an exchange, stored until it returns its own tools' results."""

import hashlib
from collections.abc import Iterable, Mapping, MutableSet, Sequence
from dataclasses import dataclass
from typing import Any, Self

import msgspec
import orjson
from msgspec import Raw

from gateway.conversation.calls import FunctionCall
from gateway.domain.chat import ChatRequest
from gateway.domain.principal import Principal
from gateway.errors import StoreError
from gateway.stores.protocols import EphemeralStore

HIDDEN_TURN_SECONDS = 3600.0  # that hidden turns are kept


@dataclass(frozen=True, slots=True)
class ConversationOwner:
    """Whose hidden turns: they are never visible across workspaces, callers or sessions."""

    workspace: str
    principal: str
    session: str

    @classmethod
    def from_principal(cls, principal: Principal, session: str | None) -> Self:
        return cls(principal.workspace, principal.key or principal.name, session or "")

    def make_key(self, call_ids: Iterable[str]) -> str:
        parts = [self.workspace, self.principal, self.session, *sorted(call_ids)]
        return "hidden:" + hashlib.sha256(orjson.dumps(parts)).hexdigest()


@dataclass(frozen=True, slots=True)
class HiddenTurn:
    """The transcript that replaces the assistant message which the client saw."""

    calls: tuple[FunctionCall, ...]  # the client's
    messages: tuple[bytes, ...]  # JSON, ending with our own tools' results

    def encode(self) -> bytes:
        return msgspec.json.encode({"calls": self.calls, "messages": [Raw(message) for message in self.messages]})


@dataclass(frozen=True, slots=True)
class HiddenTurns:
    """The store of hidden turns; `ttl` is how many seconds a client has to return its tools' results."""

    store: EphemeralStore
    ttl: float = HIDDEN_TURN_SECONDS

    async def keep(self, owner: ConversationOwner, turn: HiddenTurn, degraded: MutableSet[str]) -> None:
        """Store a hidden turn; if that fails, the next request has the client's own history, complete by itself."""
        try:
            await self.store.put(owner.make_key(call.id for call in turn.calls), turn.encode(), self.ttl)
        except StoreError:
            degraded.add("store")

    async def restore(self, owner: ConversationOwner, request: ChatRequest, degraded: MutableSet[str]) -> list[Raw]:
        """The client's messages with their hidden turns put back in, as far as they can be read."""
        if b'"tool_calls"' not in request.raw or not (calls := find_client_calls(request.messages)):
            return request.messages
        keys = {position: owner.make_key(call.id for call in seen) for position, seen in calls.items()}
        try:
            found = await self.store.get_many(list(keys.values()))
        except StoreError:
            degraded.add("store")
            return request.messages
        stored = {position: found[key] for position, key in keys.items() if key in found}
        return expand_history(request.messages, calls, stored) if stored else request.messages


class _StoredTurn(msgspec.Struct):
    calls: list[FunctionCall]
    messages: list[Raw]


class _SeenFunction(msgspec.Struct):
    name: str = ""
    arguments: str = ""


class _SeenCall(msgspec.Struct):
    id: str = ""
    function: _SeenFunction = msgspec.field(default_factory=_SeenFunction)


class _SeenMessage(msgspec.Struct):
    role: str = ""
    tool_calls: list[_SeenCall] | None = None


_decode_seen = msgspec.json.Decoder(_SeenMessage).decode
_decode_stored = msgspec.json.Decoder(_StoredTurn).decode

CallsByPosition = Mapping[int, Sequence[_SeenCall]]  # by the position of their assistant message


def find_client_calls(messages: Sequence[Raw]) -> CallsByPosition:
    """The tool calls of each assistant message that has any."""
    found = {}
    for position, message in enumerate(messages):
        if b'"tool_calls"' not in bytes(message):
            continue
        try:
            seen = _decode_seen(message)
        except msgspec.MsgspecError:
            continue  # not a shape that we ever sent: the upstream decides about it
        if seen.role == "assistant" and seen.tool_calls:
            found[position] = seen.tool_calls
    return found


def expand_history(messages: Sequence[Raw], calls: CallsByPosition, stored: Mapping[int, bytes]) -> list[Raw]:
    """The history with each stored transcript in place of the assistant message that the client saw."""
    history: list[Raw] = []
    for position, message in enumerate(messages):
        turn = _decode_stored(stored[position]) if position in stored else None
        if turn is not None and has_same_calls(turn.calls, calls[position]):
            history += turn.messages
        else:
            history.append(message)
    return history


def has_same_calls(stored: Sequence[FunctionCall], seen: Sequence[_SeenCall]) -> bool:
    """Whether these are the calls that we passed on: some providers reuse ids such as `call_0`."""
    by_id = {call.id: (call.name, parse_arguments(call.arguments)) for call in stored}
    return by_id == {call.id: (call.function.name, parse_arguments(call.function.arguments)) for call in seen}


def parse_arguments(arguments: str) -> Any:
    """Arguments as a value, since clients may write the same JSON differently; as text if they are no JSON."""
    try:
        return orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments
