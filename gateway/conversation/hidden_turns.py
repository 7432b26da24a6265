"""The store of hidden turns: what the client never saw of an exchange, until it returns its own tools' results."""

from collections.abc import Callable, Container, Mapping, MutableSet
from typing import Protocol, Self, TypeVar

import msgspec
import orjson
from msgspec import Raw

from gateway.conversation.call_groups import find_groups
from gateway.conversation.dialect import Dialect
from gateway.conversation.hidden_turn import HiddenTurn, decode_turn
from gateway.conversation.history import UNREADABLE
from gateway.conversation.history_hash import HistoryKeys, find_keys, make_turn_keys
from gateway.domain.chat import ChatRequest
from gateway.domain.principal import Principal
from gateway.errors import StoreError, WorkspaceBusy
from gateway.fair_queue import FairThreads
from gateway.stores.protocols import EphemeralStore

HIDDEN_TURN_SECONDS = 3600.0  # that hidden turns are kept
LARGE_BODY = 256 * 1024  # bytes from which a history is read off the event loop

R = TypeVar("R")


class ReachableResources(Protocol):
    """What the caller may read in the request at hand; a Selection is one."""

    def list_reachable(self) -> Container[str]:
        """Ids of resources, and of nodes with their prefix."""
        ...


class ConversationOwner(msgspec.Struct):
    """Whose hidden turns: they are never visible across workspaces, keys, users or sessions."""

    workspace: str
    principal: str
    user: str = ""
    session: str = ""

    @classmethod
    def from_principal(cls, principal: Principal, user: str | None, session: str | None) -> Self:
        return cls(principal.workspace, principal.key or principal.name, user or "", session or "")

    def encode(self) -> bytes:
        return orjson.dumps([self.workspace, self.principal, self.user, self.session])


class TurnPointer(msgspec.Struct, frozen=True, array_like=True):
    """Which hidden turn stands at a point of a history; no key: there are several, and nobody can tell which."""

    key: str | None
    meaning: str  # a hash of what it puts back in


_decode_pointer = msgspec.json.Decoder(TurnPointer).decode


class HiddenTurns(msgspec.Struct, frozen=True):
    """Keeps hidden turns for `ttl` seconds, in which a client has to return its tools' results."""

    store: EphemeralStore
    ttl: float = HIDDEN_TURN_SECONDS
    threads: FairThreads = msgspec.field(default_factory=lambda: FairThreads("history"))  # for large bodies

    async def keep(
        self,
        dialect: Dialect,
        owner: ConversationOwner,
        request: ChatRequest,
        turn: HiddenTurn,
        degraded: MutableSet[str],
    ) -> None:
        """Store a hidden turn; if that fails, the next request has the client's own history, complete by itself."""
        try:
            keys = await self._run_beside(
                owner, request, lambda: make_turn_keys(dialect, owner.encode(), request.messages, turn.text, turn.marks)
            )
            pointer = TurnPointer(keys.exact, turn.hash_meaning(dialect)) if keys is not None else None
        except UNREADABLE:
            return  # no shape that could be put back in
        except WorkspaceBusy:
            degraded.add("store")
            return
        if keys is None or pointer is None:
            return
        try:
            await self.store.put(keys.exact, msgspec.json.encode(turn), self.ttl)
            known = read_pointer((await self.store.get_many([keys.lenient])).get(keys.lenient))
            if known is not None and known.meaning != pointer.meaning:
                pointer = TurnPointer(None, "")
            await self.store.put(keys.lenient, msgspec.json.encode(pointer), self.ttl)
        except StoreError:
            degraded.add("store")

    async def restore(
        self,
        dialect: Dialect,
        owner: ConversationOwner,
        request: ChatRequest,
        selection: ReachableResources,
        degraded: MutableSet[str],
    ) -> list[Raw]:
        """The client's messages with what was hidden put back in, as far as the caller can reach it now."""
        if not dialect.may_answer_calls(request):
            return request.messages
        keys = await self._run_beside(owner, request, lambda: find_keys(dialect, owner.encode(), request.messages))
        if keys is None:
            return request.messages
        try:
            turns = await self._load(dialect, keys)
        except StoreError:
            degraded.add("store")
            return request.messages
        return (replay_turns(dialect, keys, turns, selection) if turns else None) or request.messages

    async def _run_beside(self, owner: ConversationOwner, request: ChatRequest, work: Callable[[], R]) -> R:
        """Do what takes time that grows with the body: in a thread if that is large."""
        return await self.threads.run(owner.workspace, work) if len(request.raw) > LARGE_BODY else work()

    async def _load(self, dialect: Dialect, keys: HistoryKeys) -> dict[int, HiddenTurn]:
        """The hidden turns by the number of the call that they begin with."""
        found = await self.store.get_many([*keys.exact.values(), *keys.lenient.values()])
        turns = decode_turns(dialect, keys.exact, found)
        wanted: dict[int, str] = {}
        for call in keys.calls:
            pointer = read_pointer(found.get(keys.lenient[call.number]))
            if pointer is not None and pointer.key is not None and call.message.calls[0].number not in turns:
                wanted[call.number] = pointer.key
        if wanted:
            turns |= decode_turns(dialect, wanted, await self.store.get_many(list(wanted.values())))
        return turns


def replay_turns(
    dialect: Dialect, keys: HistoryKeys, turns: Mapping[int, HiddenTurn], selection: ReachableResources
) -> list[Raw] | None:
    """The history with these turns; None if none of them can be put back in."""
    try:
        groups = find_groups(keys.calls, turns, selection.list_reachable())
        return dialect.replay(keys.messages, groups) if groups else None
    except UNREADABLE:
        return None


def decode_turns(dialect: Dialect, keys: Mapping[int, str], found: Mapping[str, bytes]) -> dict[int, HiddenTurn]:
    decoded = {number: decode_turn(found[key], dialect) for number, key in keys.items() if key in found}
    return {number: turn for number, turn in decoded.items() if turn is not None}


def read_pointer(data: bytes | None) -> TurnPointer | None:
    if data is None:
        return None
    try:
        return _decode_pointer(data)
    except msgspec.MsgspecError:
        return None
