"""Responses of which little has to be remembered: whose they are, and which upstream keeps them."""

from collections.abc import Hashable, Sequence

import msgspec
from msgspec import Raw

from gateway.conversation.response_keys import (
    ITEM_PREFIX,
    MAX_ITEM_ID,
    MAX_NAMED_ITEMS,
    PREFIX,
    KeyStart,
    is_plain,
    join_plain,
)
from gateway.conversation.response_record import SAME_ID, ResponseRecord, encode_record
from gateway.conversation.waiting_responses import WaitingResponse
from gateway.stores.protocols import CommonValue

ITEM_UPSTREAM = b"="  # what is told of an item of a response that its upstream keeps


class NotedResponse(msgspec.Struct, frozen=True, gc=False):
    """A response that its upstream keeps under the id that the client knows, and that the client saw as it is there.

    It waits for its batch without its request and its reply: whatever it held would be out of the CPU's cache when it
    is let go, and so would be the memory that others get in its place meanwhile.
    """

    start: KeyStart  # of its owner's keys
    id: str
    names: Sequence[str]  # of what stands in it
    model: str  # that was sent
    echoed: dict[str, Raw] | None  # fields of the request that the client saw in the upstream's response


def describe_noted(noted: Sequence[NotedResponse], joined: WaitingResponse) -> None:
    """Add what is kept of these to that of others: those that differ by their ids alone have the same record."""
    if len({one.id for one in noted}) < len(noted):
        noted = list({(one.start, one.id): one for one in noted}.values())  # the last of those with the same id counts
    responses: dict[Hashable, list[NotedResponse]] = {}
    items: dict[KeyStart, list[str]] = {}
    echoed: dict[str, Raw] | None = None
    told: Hashable = None
    for one in noted:
        if one.echoed != echoed:  # which costs less than to look each of them up
            echoed = one.echoed
            told = None if echoed is None else (*echoed, *map(bytes, echoed.values()))
        responses.setdefault((one.start, one.model, told), []).append(one)
        if one.names:
            items.setdefault(one.start, []).extend(one.names[:MAX_NAMED_ITEMS])
    for alike in responses.values():
        first = alike[0]
        record = encode_record(ResponseRecord(first.model, SAME_ID, echoed=first.echoed))
        put(joined, first.start, PREFIX, [one.id for one in alike], record)
        joined.counted += len(record)
        joined.number += len(alike)
    for start, names in items.items():
        if short := [name for name in names if len(name) <= MAX_ITEM_ID]:
            put(joined, start, ITEM_PREFIX, short, ITEM_UPSTREAM)


def put(joined: WaitingResponse, start: KeyStart, prefix: str, ids: Sequence[str], value: bytes) -> None:
    """Add a value under the keys of these ids."""
    ends = join_plain(ids)
    if ends is None:
        joined.values.update((start.finish(id, prefix), value) for id in ids if not is_plain(id))
        ends = " ".join(filter(is_plain, ids))
    if ends:
        joined.shared = [*joined.shared, CommonValue(start.begin(prefix), ends, value)]
    joined.counted += sum(map(len, ids))
