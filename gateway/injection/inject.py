"""A Selection becomes the exact text to place."""

from collections.abc import Callable
from dataclasses import replace

from gateway.domain.injection import Injection, Texts
from gateway.domain.scope import Item
from gateway.domain.selection import Selection, Warned
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
    texts = Texts(*map(inside, (instructions, stable, volatile)))
    return Injection(selection, stable, volatile, registered, tokens, texts)


def with_items(injection: Injection, items: tuple[Item, ...], tag: str, count: Count) -> Injection:
    """The same injection with the caller's own texts in its volatile block: they are never left out."""
    old = injection.selection
    volatile = volatile_block(old.volatile, items, tag)
    added = count(volatile) - count(injection.volatile)
    room = max(0, old.budget - sum(placed.tokens for placed in (*old.stable, *old.volatile)))
    warnings = old.warnings
    if added > room:
        warnings = (*warnings, Warned("over_budget", "items", f"The items take {added} tokens; {room} were left."))
    return replace(
        injection,
        selection=replace(old, items=items, warnings=warnings),
        volatile=volatile,
        tokens=injection.tokens + added,
        texts=replace(injection.texts, volatile=inside(volatile)),
    )
