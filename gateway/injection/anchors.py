"""Blocks that stay with the user message that they were placed with, so that earlier messages never change."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
from msgspec import Raw

from gateway.domain.agent import Placement
from gateway.domain.injection import AnchoredBlock, Injection, PlacedTexts
from gateway.domain.scope import RequestItem
from gateway.domain.selection import PlacedResource, StickySelection
from gateway.injection.blocks import TokenCount, add_items, build_volatile_block
from gateway.injection.place import escape_json, find_leading_message, put_at_head, quote_json, read_role

_encode = msgspec.json.Encoder().encode


def render_sticky(
    plain: Injection,
    kept: StickySelection,
    items: tuple[RequestItem, ...],
    apart: bool,
    tag: str,
    count: TokenCount,
) -> Injection:
    """The injection with the picks that stay.

    With `apart`, the volatile block has a message of its own: what a user message has brought then stays with it.
    """
    selection = kept.selection
    blocks = build_anchored_blocks(kept, tag) if apart else ()
    anchored = {identity for identities, _ in blocks for identity in identities}
    rest = tuple(one for one in selection.volatile if one.candidate.resource.id not in anchored)
    spent = sum(one.tokens for one in selection.volatile) - sum(one.tokens for one in rest)
    volatile = build_volatile_block(rest, (), tag)
    placed = tuple(block for _, block in blocks)
    current = replace(
        plain,
        selection=replace(selection, volatile=rest, budget=max(0, selection.budget - spent)),
        volatile=volatile,
        tokens=plain.tokens + sum(map(count, (volatile, *(one.text for one in placed)))) - count(plain.volatile),
        texts=replace(plain.texts, volatile=escape_json(volatile), anchored=placed),
        sticky=kept.picks,
    )
    if items:
        current = add_items(current, items, tag, count)
    whole = replace(current.selection, volatile=selection.volatile, budget=selection.budget)
    return replace(current, selection=whole)


def build_anchored_blocks(kept: StickySelection, tag: str) -> list[tuple[frozenset[str], AnchoredBlock]]:
    """A block for each user message that brought something, with the ids of what is in it."""
    places = {one.id: one.message for one in kept.picks}
    groups: dict[int, list[PlacedResource]] = {}
    for one in kept.selection.volatile:
        if (message := places.get(one.candidate.resource.id)) is not None:
            groups.setdefault(message, []).append(one)
    blocks = []
    for message, resources in groups.items():
        text = build_volatile_block(resources, (), tag)
        identities = frozenset(one.candidate.resource.id for one in resources)
        blocks.append((identities, AnchoredBlock(message, text, escape_json(text))))
    return blocks


def place_anchored(messages: Sequence[Raw], texts: PlacedTexts, placement: Placement) -> list[Raw]:
    """The messages with each block where it was when its user message was the last one.

    What else the last user message has before it comes after its block: that is gone in the next request.
    """
    role = find_leading_message(messages).role
    users = [position for position, message in enumerate(messages) if read_role(message) == "user"]
    placed = list(messages)
    for one in sorted(texts.anchored, key=lambda block: -block.message):
        position = users[one.message]
        if placement is Placement.TURN:
            behind = bool(texts.volatile) and one.message == len(users) - 1
            placed.insert(position - behind, Raw(_encode({"role": role, "content": quote_json(one.encoded)})))
        else:
            put_at_head(placed, position, one.encoded)
    return placed
