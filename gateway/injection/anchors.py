"""Blocks that stay with the user message that they were placed with, so that earlier messages never change."""

from typing import NamedTuple

from msgspec.structs import replace

from gateway.domain.collector import Category
from gateway.domain.injection import AnchoredBlock, Injection
from gateway.domain.json_text import escape_json
from gateway.domain.scope import RequestItem
from gateway.domain.selection import CategoryCost, PlacedResource, Selection, StickySelection
from gateway.injection.blocks import (
    Block,
    add_cost,
    add_items,
    build_volatile_block,
    count_frame,
)
from gateway.tokens import TokenCount


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
    blocks = build_anchored_blocks(kept, tag) if apart else []
    anchored = {identity for one in blocks for identity in one.identities}
    apart_tokens = sum(one.tokens for one in selection.volatile if one.candidate.resource.id in anchored)
    rest = replace(
        selection, volatile=tuple(one for one in selection.volatile if one.candidate.resource.id not in anchored)
    )
    frame = count_frame(rest, tag, count) - count_frame(plain.selection, tag, count)
    frame += sum(count_frame(one.selection, tag, count) - one.block.count_saved(count) for one in blocks)
    volatile = build_volatile_block(rest, tag)
    costs = (CategoryCost(Category.SEMANTIC, apart_tokens), *add_cost(rest.costs, frame))
    rest = replace(rest, costs=costs, saved=volatile.count_saved(count))
    tokens = rest.count_tokens()
    if blocks and tokens > selection.budget:  # a block of its own for each message is too much
        return render_sticky(plain, kept, items, False, tag, count)
    texts = replace(plain.texts, volatile=escape_json(volatile.text), anchored=tuple(one.anchor() for one in blocks))
    current = replace(plain, selection=rest, volatile=volatile.text, tokens=tokens, texts=texts, sticky=kept.picks)
    if items:
        current = add_items(current, items, tag, count)
    own = current.selection
    return replace(current, selection=replace(own, volatile=selection.volatile, costs=own.costs[1:]))


class MessageBlock(NamedTuple):
    """What a user message has brought, in a block that stays with it."""

    message: int
    selection: Selection
    block: Block

    @property
    def identities(self) -> list[str]:
        return [one.candidate.resource.id for one in self.selection.volatile]

    def anchor(self) -> AnchoredBlock:
        return AnchoredBlock(self.message, self.block.text, escape_json(self.block.text))


def build_anchored_blocks(kept: StickySelection, tag: str) -> list[MessageBlock]:
    """A block for each user message that brought something."""
    places = {one.id: one.message for one in kept.picks}
    groups: dict[int, list[PlacedResource]] = {}
    for one in kept.selection.volatile:
        if (message := places.get(one.candidate.resource.id)) is not None:
            groups.setdefault(message, []).append(one)
    selections = {message: Selection(volatile=tuple(resources)) for message, resources in groups.items()}
    return [MessageBlock(message, one, build_volatile_block(one, tag)) for message, one in selections.items()]
