"""Blocks that stay with the user message that they were placed with, so that earlier messages never change."""

from collections.abc import Sequence
from dataclasses import replace

from gateway.domain.collector import Category
from gateway.domain.injection import AnchoredBlock, Injection
from gateway.domain.json_text import escape_json
from gateway.domain.scope import RequestItem
from gateway.domain.selection import CategoryCost, PlacedResource, Selection, StickySelection
from gateway.injection.blocks import (
    CONTEXT,
    TokenCount,
    add_items,
    build_volatile_block,
    format_end,
    format_marker,
    is_found,
)


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
    apart_tokens = sum(one.tokens for one in selection.volatile if one.candidate.resource.id in anchored)
    rest = replace(
        selection, volatile=tuple(one for one in selection.volatile if one.candidate.resource.id not in anchored)
    )
    frame = count_frame(rest, tag, count) + len(blocks) * count_frame(selection, tag, count)
    frame -= count_frame(plain.selection, tag, count)
    rest = replace(rest, costs=(CategoryCost(Category.SEMANTIC, apart_tokens), *add_cost(rest.costs, frame)))
    tokens = sum(rest.tokens.values())
    if blocks and tokens > selection.budget:  # a block of its own for each message is too much
        return render_sticky(plain, kept, items, False, tag, count)
    volatile = build_volatile_block(rest, tag)
    texts = replace(plain.texts, volatile=escape_json(volatile), anchored=tuple(block for _, block in blocks))
    current = replace(plain, selection=rest, volatile=volatile, tokens=tokens, texts=texts, sticky=kept.picks)
    if items:
        current = add_items(current, items, tag, count)
    own = current.selection
    return replace(current, selection=replace(own, volatile=selection.volatile, costs=own.costs[1:]))


def count_frame(selection: Selection, tag: str, count: TokenCount) -> int:
    """The tokens of the markers around resources of a volatile block, and of its end."""
    resources = any(not is_found(one.candidate.resource) for one in selection.volatile)
    end = count(format_end(tag)) if selection.volatile or selection.notes else 0
    return end + (count(format_marker(CONTEXT, tag)) if resources else 0)


def add_cost(costs: Sequence[CategoryCost], frame: int) -> tuple[CategoryCost, ...]:
    return (*costs, CategoryCost(Category.FRAME, frame)) if frame else tuple(costs)


def build_anchored_blocks(kept: StickySelection, tag: str) -> list[tuple[frozenset[str], AnchoredBlock]]:
    """A block for each user message that brought something, with the ids of what is in it."""
    places = {one.id: one.message for one in kept.picks}
    groups: dict[int, list[PlacedResource]] = {}
    for one in kept.selection.volatile:
        if (message := places.get(one.candidate.resource.id)) is not None:
            groups.setdefault(message, []).append(one)
    blocks = []
    for message, resources in groups.items():
        text = build_volatile_block(Selection(volatile=tuple(resources)), tag)
        identities = frozenset(one.candidate.resource.id for one in resources)
        blocks.append((identities, AnchoredBlock(message, text, escape_json(text))))
    return blocks
