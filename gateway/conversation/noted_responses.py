"""Responses of which little has to be remembered: whose they are, and which upstream keeps them."""

from collections.abc import Hashable, Sequence

import msgspec
from msgspec import Raw

from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.response_keys import (
    ITEM_PREFIX,
    MAX_ITEM_ID,
    PREFIX,
    KeyStart,
    get_key_start,
    sort_ids,
)
from gateway.conversation.response_record import SAME_ID, ResponseRecord, encode_record
from gateway.conversation.waiting_responses import WaitingResponse
from gateway.stores.protocols import CommonValue

ITEM_UPSTREAM = b"="  # what is told of an item of a response that its upstream keeps


class NotedResponses(msgspec.Struct):
    """Responses that differ by their ids alone: their upstream keeps each as the client saw it.

    They wait for their batch without their requests and replies: whatever they held would be out of the CPU's cache
    when it is let go, and so would be the memory that others get in its place meanwhile.
    """

    owner: ConversationOwner
    model: str  # that was sent
    echoed: dict[str, Raw] | None  # fields of the requests that the client saw in the upstream's responses
    ids: list[str] = []  # oldest first
    names: list[str] = []  # of what stands in them


def describe_noted(noted: Sequence[NotedResponses], joined: WaitingResponse) -> None:
    """Add what is kept of these to that of others: those that differ by their ids alone have the same record."""
    add_items(noted, joined)
    if len(noted) > 1 or len(set(noted[0].ids)) < len(noted[0].ids):
        noted = merge_alike(noted)
    for alike in noted:
        add_records(alike, joined)


def merge_alike(noted: Sequence[NotedResponses]) -> Sequence[NotedResponses]:
    """The same, each kind once, and each id of an owner once: the last of those with the same id counts."""
    kinds: dict[tuple[KeyStart, str], Hashable] = {}  # of each id, the last one
    merged: dict[Hashable, NotedResponses] = {}
    for one in noted:
        start = get_key_start(one.owner)
        told = None if one.echoed is None else frozenset((name, bytes(value)) for name, value in one.echoed.items())
        kind: Hashable = (start, one.model, told)
        kinds.update(((start, id), kind) for id in one.ids)
        merged.setdefault(kind, NotedResponses(one.owner, one.model, one.echoed))
    for (_, id), kind in kinds.items():
        merged[kind].ids.append(id)
    return [one for one in merged.values() if one.ids]


def add_records(alike: NotedResponses, joined: WaitingResponse) -> None:
    """Add the record of responses that differ by their ids alone; one whose id is not plain has its own."""
    start, ids = get_key_start(alike.owner), alike.ids
    joined.number += len(ids)
    joined.counted += sum(map(len, ids))
    plain, odd = sort_ids(ids)
    for id in odd:
        own = encode_record(ResponseRecord(alike.model, id, echoed=alike.echoed))
        joined.values[start.hash(id, PREFIX)] = own
        joined.counted += len(own)
    if plain:
        record = encode_record(ResponseRecord(alike.model, SAME_ID, echoed=alike.echoed))
        joined.shared.append(CommonValue(start.begin(PREFIX), plain, record))
        joined.counted += len(record)


def add_items(noted: Sequence[NotedResponses], joined: WaitingResponse) -> None:
    """Add whose the items of these are; their upstream knows what they say."""
    items: dict[KeyStart, list[str]] = {}
    for one in noted:
        if one.names:
            items.setdefault(get_key_start(one.owner), []).extend(one.names)
    for start, names in items.items():
        joined.counted += sum(map(len, names))
        plain, odd = sort_ids(names)
        short = (name for name in odd if len(name) <= MAX_ITEM_ID)
        joined.values.update((start.hash(name, ITEM_PREFIX), ITEM_UPSTREAM) for name in short)
        if plain:
            joined.shared.append(CommonValue(start.begin(ITEM_PREFIX), plain, ITEM_UPSTREAM))
