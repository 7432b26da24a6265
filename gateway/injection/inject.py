"""A Selection becomes the exact text to place."""

from collections.abc import Callable
from dataclasses import replace

from gateway.domain.injection import Injection, PlacedTexts
from gateway.domain.scope import RequestItem
from gateway.domain.selection import Notice, Selection
from gateway.domain.tools import OwnTools
from gateway.injection.blocks import entry, stable_block, volatile_block
from gateway.injection.place import inside

Count = Callable[[str], int]


def entry_cost(count: Count) -> Callable[[str, str], int]:
    """What one entry of a block costs."""
    return lambda name, text: count(entry(name, text))


def inject(selection: Selection, tools: OwnTools, instructions: str, tag: str, count: Count) -> Injection:
    """Blocks and tools for a selection; the tools only where there is something to fetch."""
    registered = tools if selection.catalogue else None
    stable = stable_block(selection.stable, selection.catalogue, tag, (tools.get, tools.list))
    volatile = volatile_block(selection.volatile, selection.items, tag)
    schemas = [bytes(schema).decode() for schema in registered.schemas] if registered else []
    tokens = sum(map(count, (stable, volatile, *schemas)))
    texts = PlacedTexts(*map(inside, (instructions, stable, volatile)))
    left = (*selection.catalogue, *selection.dropped)
    findable = tuple(one.candidate.resource.id for one in left if one.findable)
    return Injection(selection, stable, volatile, registered, tokens, texts, findable)


def with_items(injection: Injection, items: tuple[RequestItem, ...], tag: str, count: Count) -> Injection:
    """The same injection with the caller's own texts in its volatile block: they are never left out."""
    old = injection.selection
    changed = with_volatile(injection, replace(old, items=items), tag, count)
    added = changed.tokens - injection.tokens
    room = max(0, old.budget - sum(placed.tokens for placed in (*old.stable, *old.volatile)))
    if added <= room:
        return changed
    warned = Notice("over_budget", "items", f"The items take {added} tokens; {room} were left.")
    return replace(changed, selection=replace(changed.selection, warnings=(*old.warnings, warned)))


def with_volatile(injection: Injection, selection: Selection, tag: str, count: Count) -> Injection:
    """The same injection with another selection's volatile block; what is stable keeps its bytes."""
    volatile = volatile_block(selection.volatile, selection.items, tag)
    return replace(
        injection,
        selection=selection,
        volatile=volatile,
        tokens=injection.tokens + count(volatile) - count(injection.volatile),
        texts=replace(injection.texts, volatile=inside(volatile)),
    )
