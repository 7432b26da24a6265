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
    sort_ids,
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
    add_items(noted, joined)
    if len({one.id for one in noted}) < len(noted):
        noted = list({(one.start, one.id): one for one in noted}.values())  # the last of those with the same id counts
    joined.number += len(noted)
    groups: dict[Hashable, list[NotedResponse]] = {}
    echoed: dict[str, Raw] | None = None
    told: Hashable = None
    for one in noted:
        if one.echoed != echoed:  # which costs less than to look each of them up
            echoed = one.echoed
            told = None if echoed is None else (*echoed, *map(bytes, echoed.values()))
        groups.setdefault((one.start, one.model, told), []).append(one)
    for alike in groups.values():
        add_records(alike, joined)


def add_records(alike: Sequence[NotedResponse], joined: WaitingResponse) -> None:
    """Add the record of responses that differ by their ids alone; one whose id is not plain has its own."""
    first, ids = alike[0], [one.id for one in alike]
    joined.counted += sum(map(len, ids))
    plain, odd = sort_ids(ids)
    for id in odd:
        own = encode_record(ResponseRecord(first.model, id, echoed=first.echoed))
        joined.values[first.start.hash(id, PREFIX)] = own
        joined.counted += len(own)
    if plain:
        record = encode_record(ResponseRecord(first.model, SAME_ID, echoed=first.echoed))
        joined.shared.append(CommonValue(first.start.begin(PREFIX), plain, record))
        joined.counted += len(record)


def add_items(noted: Sequence[NotedResponse], joined: WaitingResponse) -> None:
    """Add whose the items of these are; their upstream knows what they say."""
    items: dict[KeyStart, list[str]] = {}
    for one in noted:
        if one.names:
            items.setdefault(one.start, []).extend(one.names[:MAX_NAMED_ITEMS])
    for start, names in items.items():
        joined.counted += sum(map(len, names))
        plain, odd = sort_ids(names)
        short = (name for name in odd if len(name) <= MAX_ITEM_ID)
        joined.values.update((start.hash(name, ITEM_PREFIX), ITEM_UPSTREAM) for name in short)
        if plain:
            joined.shared.append(CommonValue(start.begin(ITEM_PREFIX), plain, ITEM_UPSTREAM))
