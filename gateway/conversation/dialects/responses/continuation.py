"""`previous_response_id` and `store`: continuing a response, and keeping one so that it can be continued."""

from collections.abc import Container, Iterator, MutableSet, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from operator import is_
from typing import Any

import msgspec
from msgspec import Raw

from gateway import sse
from gateway.conversation.dialects.responses import events
from gateway.conversation.dialects.responses.echoed import EchoedFields
from gateway.conversation.dialects.responses.items import UNREADABLE_ITEM, decode_items, decode_object, read_item
from gateway.conversation.dialects.responses.transcript import is_unstored
from gateway.conversation.hidden_turn import HiddenMessage
from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.loop import TurnLoop
from gateway.conversation.stored_responses import MAX_CHAIN, NULL, ResponseRecord, StoredResponses
from gateway.domain.chat import ChatRequest, ContinuedResponses, OutgoingBody
from gateway.domain.exchange import ClientWriter, Reply, ReplyStream
from gateway.domain.upstream import Upstream
from gateway.errors import InvalidRequest, PreviousResponseNotFound, StoreError, quote

PREVIOUS = "previous_response_id"
MAX_CONVERSATION_BYTES = 16 * 1024 * 1024  # of all that the gateway keeps of a conversation
OUT_OF_REACH = "Error: this result is not available any more."
KEPT_STATUSES = ("completed", "incomplete")

_encode = msgspec.json.Encoder().encode


class FinishedItem(msgspec.Struct, gc=False):
    """An item of a response that has ended."""

    id: str | None = None
    container_id: str | None = None  # of the one that its code ran in
    environment: Any = None  # that its commands ran in, which may be a container

    @property
    def container(self) -> str | None:
        """The id of the container that it used."""
        named = self.environment.get("container_id") if isinstance(self.environment, dict) else None
        return self.container_id or (named if isinstance(named, str) else None)


class FinishedResponse(msgspec.Struct):
    """What is looked at in a response that has ended."""

    id: str
    status: str
    output: list[FinishedItem]


class _EndEvent(msgspec.Struct):
    type: str
    response: Raw


_decode_ended = msgspec.json.Decoder(FinishedResponse).decode
_decode_end = msgspec.json.Decoder(_EndEvent).decode


def is_native(upstreams: Sequence[Upstream]) -> bool:
    """Whether every upstream that may serve a request has responses itself."""
    return all("responses" in upstream.capabilities.dialects for upstream in upstreams)


def check_account(request: ChatRequest, upstreams: Sequence[Upstream]) -> None:
    """Refuse what an upstream keeps for everybody who shares the gateway's account."""
    if request.has("conversation") and not all(upstream.passes_bearer for upstream in upstreams):
        raise InvalidRequest(
            "Conversations belong to the gateway's own account; send the items or `previous_response_id` instead.",
            param="conversation",
        )


async def resume(
    stored: StoredResponses, owner: ConversationOwner, request: ChatRequest, upstreams: Sequence[Upstream]
) -> ChatRequest:
    """The request with what it continues; raises PreviousResponseNotFound unless that is the caller's own."""
    if request.previous is None:
        return request
    record, native = await stored.find(owner, request.previous), is_native(upstreams)
    if record is None:
        if native and all(upstream.passes_bearer for upstream in upstreams):
            return request  # it is the caller's own account, which knows better
        raise build_unknown(request.previous)
    if record.native:
        if not native:
            raise InvalidRequest(
                "The previous response is kept by another upstream; send its items instead.", param=PREVIOUS
            )
        following = Raw(_encode(record.native))
        continued = ContinuedResponses(told=dict(record.told), known=record.known)
        messages = [*record.pending, *request.messages]
        return replace(request, messages=messages, replaced={PREVIOUS: following}, continued=continued)
    if len(record.earlier) >= MAX_CHAIN:
        raise InvalidRequest(
            f"A conversation of more than {MAX_CHAIN} responses cannot be continued; send its items instead.",
            param=PREVIOUS,
        )
    whole = [*(await stored.find_many(owner, record.earlier)), record]
    if None in whole:
        raise build_unknown(request.previous)
    before: list[Raw] = []
    told: dict[int, tuple[str, ...]] = {}
    size = 0
    for one in whole:
        assert one is not None
        size += one.size
        before += one.input or ()
        told |= {len(before) + position: resources for position, resources in one.told}
        before += one.added
    return replace(
        request,
        messages=[*before, *request.messages],
        replaced={PREVIOUS: None},
        continued=ContinuedResponses((*record.earlier, request.previous), told, size=size),
    )


def screen(request: ChatRequest, reachable: Container[str]) -> ChatRequest:
    """The request without results that tell of resources which the caller cannot reach any more.

    Raises PreviousResponseNotFound if the upstream's own copy of the conversation has such results.
    """
    continued = request.continued
    assert continued is not None
    if not all(one in reachable for one in continued.known):
        raise PreviousResponseNotFound(
            f"The response {quote(request.previous or '')} used context that this request has not got. "
            "Send its items instead.",
            param=PREVIOUS,
        )
    lost = [at for at, resources in continued.told.items() if not all(one in reachable for one in resources)]
    if not lost:
        return request
    messages = list(request.messages)
    for at in lost:
        messages[at] = withhold(messages[at])
    told = {at: resources for at, resources in continued.told.items() if at not in set(lost)}
    return replace(request, messages=messages, continued=replace(continued, told=told))


def withhold(item: Raw) -> Raw:
    """A result that says nothing: without one, its call would be invalid."""
    return Raw(_encode({"type": "function_call_output", "call_id": read_item(item).answers, "output": OUT_OF_REACH}))


def build_unknown(identity: str) -> PreviousResponseNotFound:
    return PreviousResponseNotFound(f"There is no response {quote(identity)} to continue.", param=PREVIOUS)


@dataclass(slots=True)
class ResponseKeeper:
    """Keeps the response of one exchange before the client has seen its end."""

    stored: StoredResponses
    owner: ConversationOwner
    asked: ChatRequest  # as the client sent it
    request: ChatRequest  # with what it continues
    outgoing: OutgoingBody
    model: str  # that was sent
    native: bool
    degraded: MutableSet[str]

    @property
    def wanted(self) -> bool:
        """Whether the client wants its response kept; that is the default."""
        return not is_unstored(self.asked.fields)

    async def watch(self, reply: Reply, loop: TurnLoop | None) -> Reply:
        """The reply, kept if it is whole, or when its stream ends."""
        if reply.status >= 400:
            return reply
        if reply.stream is not None:
            return replace(reply, stream=partial(self._stream, reply.stream, loop))
        await self._keep(reply.body, loop)
        return reply

    async def _stream(self, stream: ReplyStream, loop: TurnLoop | None, writer: ClientWriter) -> None:
        held = HeldEnd(writer)
        await stream(held)
        if held.last is not None:
            if (ended := find_ended_response(held.last)) is not None:
                await self._keep(ended, loop)
            writer.end(held.last)

    async def _keep(self, body: bytes, loop: TurnLoop | None) -> None:
        """Keep what the client sees as `body`; if that fails, it cannot be continued."""
        try:
            ended = _decode_ended(body)
            if ended.status not in KEPT_STATUSES:
                return
            if self.native:
                kept = await self._keep_native(ended, body, loop)
            else:
                kept = await self._keep_whole(ended, body, loop)
            if not kept:
                self.degraded.add("store")
        except UNREADABLE_ITEM:
            return  # nothing that anybody could continue
        except StoreError:
            self.degraded.add("store")

    async def _keep_native(self, ended: FinishedResponse, body: bytes, loop: TurnLoop | None) -> bool:
        """What the upstream does not keep itself: who may go on from where, and what the client sees differently."""
        hidden = loop.hidden if loop is not None else ()
        pending = hidden[-1].results if loop is not None and loop.pending else ()
        sent_up = hidden[:-1] if pending else hidden
        continued = self.request.continued or ContinuedResponses()
        told = chain(*continued.told.values(), *(one.resources for turn in sent_up for one in turn.results))
        changed = not self.outgoing.unchanged
        whole = changed and loop is not None and not loop.is_shown_as_told
        given = changed and (whole or self.asked.previous is not None or not self._sent_same_items)
        record = ResponseRecord(
            self.model,
            (loop.last_id if loop is not None else "") or ended.id,
            tuple(map(Raw, loop.pending)) if loop is not None else (),
            Raw(body) if whole else NULL,
            tuple(self.asked.messages) if given else None,
            told=tuple((at, one.resources) for at, one in enumerate(pending) if one.resources),
            known=tuple(dict.fromkeys((*continued.known, *told))),
            echoed=EchoedFields.select(self.asked.fields) if changed and not whole else None,
        )
        return await self.stored.keep(self.owner, ended.id, record, list_named(ended.output))

    @property
    def _sent_same_items(self) -> bool:
        """Whether the upstream was sent the client's own items, and no others."""
        sent, given = self.outgoing.messages, self.asked.messages
        return len(sent) == len(given) and all(map(is_, sent, given))

    async def _keep_whole(self, ended: FinishedResponse, body: bytes, loop: TurnLoop | None) -> bool:
        """Everything: the upstream keeps nothing."""
        continued = self.request.continued or ContinuedResponses()
        added = map(Raw, loop.list_added()) if loop is not None else decode_items(decode_object(body)["output"])
        hidden = loop.hidden if loop is not None else ()
        sent, told = tuple(self.asked.messages), tuple(list_told(hidden))
        record = ResponseRecord(self.model, "", (), Raw(body), sent, tuple(added), continued.earlier, told)
        if continued.size + record.size > MAX_CONVERSATION_BYTES:  # whoever continues it reads all of it
            return False
        return await self.stored.keep(self.owner, ended.id, record, (item.id for item in ended.output))


def list_named(output: Sequence[FinishedItem]) -> list[str | None]:
    """What the items of a response are called, and the containers that they used: those are the caller's too."""
    return [name for item in output for name in (item.id, item.container) if name]


def list_told(hidden: Sequence[HiddenMessage]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Which resources the results of our calls tell of, each with its position among the items of all turns."""
    position = 0
    for turn in hidden:
        position += len(decode_items(turn.message))
        for result in turn.results:
            if result.resources:
                yield position, result.resources
            position += 1


def find_ended_response(data: bytes) -> bytes | None:
    """The response that the last of these events ends; None if none of them ends one."""
    for event in reversed(sse.split_events(data)):
        payload = sse.read_payload(event) or b""
        try:
            ended = _decode_end(payload)
        except UNREADABLE_ITEM:
            continue
        if ended.type in events.ENDS:
            return bytes(ended.response)
    return None


class HeldEnd:
    """The client's end of a stream whose last bytes wait."""

    __slots__ = ("_writer", "drain", "last", "write")

    def __init__(self, writer: ClientWriter) -> None:
        self._writer = writer
        self.write, self.drain = writer.write, writer.drain
        self.last: bytes | None = None

    def end(self, data: bytes) -> None:
        self.last = data
