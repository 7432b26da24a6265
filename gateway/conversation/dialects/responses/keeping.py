"""`store`: keeping a response before the client has seen its end, so that the client can come back to it."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from operator import is_

import msgspec
from msgspec import Raw

from gateway.conversation.dialects.responses.echoed import EchoedFields
from gateway.conversation.dialects.responses.ended import (
    EndedResponse,
    find_ended_response,
    list_named,
    read_ended,
)
from gateway.conversation.dialects.responses.items import UNREADABLE_ITEM, decode_items, decode_object
from gateway.conversation.dialects.responses.transcript import is_unstored
from gateway.conversation.hidden_turn import HiddenMessage
from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.loop import TurnLoop
from gateway.conversation.response_keys import MAX_NAMED_ITEMS
from gateway.conversation.response_record import NULL, RECORD_BYTES, ResponseRecord
from gateway.conversation.stored_responses import StoredResponses
from gateway.conversation.waiting_responses import OVERHEAD, WaitingResponse
from gateway.domain.chat import ChatRequest, ContinuedResponses, OutgoingBody
from gateway.domain.exchange import ClientWriter, Exchange, Reply, ReplyStream
from gateway.errors import StoreError

MAX_CONVERSATION_BYTES = 16 * 1024 * 1024  # of all that the gateway keeps of a conversation
SHORTEST_ITEM = len(b'{"id":"a"},')  # of those with a name; one that names a container too is longer than two
KEPT_STATUSES = ("completed", "incomplete")


def wants_keeping(asked: ChatRequest) -> bool:
    """Whether the client wants its response kept; that is the default."""
    return "store" not in asked.fields or not is_unstored(asked.fields)


class ResponseKeeper(msgspec.Struct):
    """Keeps the response of one exchange before the client has seen its end.

    It is queued in the same step in which the client gets its end, unless it has to wait for the store.
    """

    stored: StoredResponses
    owner: ConversationOwner
    asked: ChatRequest  # as the client sent it
    request: ChatRequest  # with what it continues
    outgoing: OutgoingBody
    model: str  # that was sent
    native: bool
    exchange: Exchange

    def keep(self, reply: Reply, loop: TurnLoop | None = None) -> Awaitable[None] | None:
        """Keep a whole reply now, a stream when it ends; the reply has to wait for what is returned."""
        if reply.stream is not None:
            reply.stream = partial(self._stream, reply.stream, loop)
            return None
        ended = read_ended(reply.body, reply.read)
        waiting = None if ended is None else self._queue(ended, loop)
        return None if waiting is None else self._wait(waiting)

    async def _stream(self, stream: ReplyStream, loop: TurnLoop | None, writer: ClientWriter) -> None:
        def queue(data: bytes) -> WaitingResponse | None:
            ended = find_ended_response(data)
            return None if ended is None else self._queue(ended, loop)

        held = HeldEnd(writer, queue)
        await stream(held)
        if held.waiting is not None:
            await self._wait(held.waiting)
            writer.end(held.last)

    def _queue(self, ended: EndedResponse, loop: TurnLoop | None) -> WaitingResponse | None:
        """Queue a response, if it can be continued; one that has to wait for the store is returned."""
        read, exchange = ended.read, self.exchange
        if exchange.usage is None:
            exchange.usage = read.read_usage()  # so that nobody has to look for it again
        if read.status not in KEPT_STATUSES:
            return None  # nobody could continue it
        if self.request.continued is None and (loop is None or not loop.hidden):
            has_one_id = loop is None or loop.last_id in ("", read.id)
            noted = self.native and has_one_id and (self.outgoing.unchanged or not self._needs_copy(loop))
            if self._note(ended) if noted else self._leave(ended, loop):
                return None
        waiting = self._describe(ended, loop)
        queued = waiting is None or self.stored.queue.add_now(waiting)
        if not queued and queued is not None:
            exchange.degraded.add("store")
        return waiting if queued is None else None

    def _note(self, ended: EndedResponse) -> bool:
        """Queue a response that its upstream keeps as the client saw it; False if it has to be described now."""
        owner, model, read, echoed = self.owner, self.model, ended.read, None
        names = list_named(read.output)
        # At most all that it says, and the client's own fields in place of those that it repeats.
        most = RECORD_BYTES + len(ended.source) + OVERHEAD * len(names) + 6 * len(model)
        if not self.outgoing.unchanged:
            echoed = EchoedFields.select(self.asked.fields)
            most += sum(map(len, echoed.values()))
        later = self.stored.queue.reserve(owner.workspace, most, noted=True)
        if later is None:
            return False
        alike = later.open_group(owner, model, echoed)
        alike.ids.append(read.id)
        alike.names += names[:MAX_NAMED_ITEMS]
        return True

    def _leave(self, ended: EndedResponse, loop: TurnLoop | None) -> bool:
        """Queue a response, to be described later; False if it has to be described now."""
        size = len(ended.source)
        # At most all that was said, the answer as it was shown and once more by its items.
        most = count_asked(self.asked) + 3 * size + limit_overhead(size) + RECORD_BYTES
        return self.stored.queue.add_later(self.owner.workspace, most, partial(self._describe_with, ended, loop))

    def _needs_copy(self, loop: TurnLoop | None) -> bool:
        """Whether the client sent or saw something else than the upstream has, where anything was changed."""
        if self.asked.previous is not None or not (loop is None or loop.is_shown_as_told):
            return True
        sent, given = self.outgoing.messages, self.asked.messages
        return sent is not given and (len(sent) != len(given) or not all(map(is_, sent, given)))

    def _describe_with(self, ended: EndedResponse, loop: TurnLoop | None, joined: WaitingResponse) -> None:
        """Add the response to others, if it is kept."""
        waiting = self._describe(ended, loop)
        if waiting is not None:
            joined.values.update(waiting.values)
            joined.counted += waiting.counted
            joined.number += 1

    def _describe(self, ended: EndedResponse, loop: TurnLoop | None) -> WaitingResponse | None:
        """The response as it is queued; None if nobody could continue it, or it is too large."""
        try:
            waiting = self._describe_native(ended, loop) if self.native else self._describe_whole(ended, loop)
        except UNREADABLE_ITEM:
            return None
        if waiting is None:
            self.exchange.degraded.add("store")
        return waiting

    async def _wait(self, waiting: WaitingResponse) -> None:
        """Queue a response when the store lets us; if that fails, it cannot be continued."""
        try:
            if not await self.stored.queue.add(waiting):
                self.exchange.degraded.add("store")
        except StoreError:
            self.exchange.degraded.add("store")

    def _describe_native(self, ended: EndedResponse, loop: TurnLoop | None) -> WaitingResponse | None:
        """What the upstream does not keep itself: who may go on from where, and what the client sees differently."""
        hidden = loop.hidden if loop is not None else ()
        pending = hidden[-1].results if loop is not None and loop.pending else ()
        continued = self.request.continued
        known: tuple[str, ...] = ()
        if hidden or continued is not None:
            known = list_known(continued or ContinuedResponses(), hidden[:-1] if pending else hidden)
        changed = not self.outgoing.unchanged
        whole = changed and loop is not None and not loop.is_shown_as_told
        given = changed and self._needs_copy(loop)
        record = ResponseRecord(
            self.model,
            (loop.last_id if loop is not None else "") or ended.read.id,
            tuple(map(Raw, loop.pending)) if loop is not None else (),
            Raw(ended.body) if whole else NULL,
            tuple(self.asked.messages) if given else None,
            told=tuple((at, one.resources) for at, one in enumerate(pending) if one.resources) if pending else (),
            known=known,
            echoed=EchoedFields.select(self.asked.fields) if changed and not whole else None,
        )
        return self.stored.describe(self.owner, ended.read.id, record, list_named(ended.read.output))

    def _describe_whole(self, ended: EndedResponse, loop: TurnLoop | None) -> WaitingResponse | None:
        """Everything: the upstream keeps nothing."""
        continued, body = self.request.continued or ContinuedResponses(), ended.body
        added = map(Raw, loop.list_added()) if loop is not None else decode_items(decode_object(body)["output"])
        hidden = loop.hidden if loop is not None else ()
        sent, told = tuple(self.asked.messages), tuple(list_told(hidden))
        record = ResponseRecord(self.model, "", (), Raw(body), sent, tuple(added), continued.earlier, told)
        if continued.size + record.size > MAX_CONVERSATION_BYTES:  # whoever continues it reads all of it
            return None
        return self.stored.describe(self.owner, ended.read.id, record, [item.id for item in ended.read.output])


def count_asked(asked: ChatRequest) -> int:
    """At most what the client said, with the items that it referred to."""
    return len(asked.raw) + (sum(map(len, asked.messages)) if asked.replaced is not None else 0)


def limit_overhead(size: int) -> int:
    """At most what the named items of a response weigh besides their names; to count them would take longer."""
    return OVERHEAD * min(MAX_NAMED_ITEMS, size // SHORTEST_ITEM)


def list_known(continued: ContinuedResponses, sent_up: Sequence[HiddenMessage]) -> tuple[str, ...]:
    """The resources that the upstream's copy of the conversation tells of."""
    told = chain(*continued.told.values(), *(one.resources for turn in sent_up for one in turn.results))
    return tuple(dict.fromkeys((*continued.known, *told)))


def list_told(hidden: Sequence[HiddenMessage]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Which resources the results of our calls tell of, each with its position among the items of all turns."""
    position = 0
    for turn in hidden:
        position += len(decode_items(turn.message))
        for result in turn.results:
            if result.resources:
                yield position, result.resources
            position += 1


class HeldEnd:
    """The client's end of a stream, whose last bytes wait if the response has to wait for the store."""

    __slots__ = ("_queue", "_writer", "drain", "last", "waiting", "write")

    def __init__(self, writer: ClientWriter, queue: Callable[[bytes], WaitingResponse | None]) -> None:
        self._writer, self._queue = writer, queue
        self.write, self.drain = writer.write, writer.drain
        self.last = b""
        self.waiting: WaitingResponse | None = None

    def end(self, data: bytes) -> None:
        self.waiting = self._queue(data)
        if self.waiting is None:
            self._writer.end(data)
        else:
            self.last = data
