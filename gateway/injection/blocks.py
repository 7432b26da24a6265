"""The blocks that the model sees: contexts in full, and the catalogue of what it can fetch."""

import hashlib
import hmac
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from gateway.domain.injection import Injection, OwnTools, PlacedTexts
from gateway.domain.scope import RequestItem
from gateway.domain.selection import Notice, Omission, PlacedResource, Selection
from gateway.injection.called_tools import add_called_tools
from gateway.injection.neutral import neutralize
from gateway.injection.place import escape_json

CATALOGUE_CAP = 50
NO_DESCRIPTION = "Additional reference material"

TokenCount = Callable[[str], int]


def compute_block_tag(secret: bytes, workspace: str) -> str:
    """The block tag: authors of content cannot guess it, and it never changes, so that prompts stay cacheable."""
    return hmac.new(secret, workspace.encode(), hashlib.sha256).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class StableBlock:
    """What is the same for every question of a scope: always resources, catalogue, tools."""

    text: str
    tools: OwnTools | None
    tokens: int  # of the block and the tool schemas
    texts: PlacedTexts


def entry_cost(count: TokenCount) -> Callable[[str, str], int]:
    """What one entry of a block costs."""
    return lambda name, text: count(format_entry(name, text))


def render_stable(selection: Selection, tools: OwnTools, tag: str, count: TokenCount) -> StableBlock:
    """The stable block; the tools are registered only where there is something to fetch."""
    registered = tools if selection.catalogue else None
    text = build_stable_block(selection.stable, selection.catalogue, tag, tools)
    schemas = [bytes(schema).decode() for schema in registered.schemas] if registered else []
    tokens = sum(map(count, (text, *schemas)))
    return StableBlock(text, registered, tokens, PlacedTexts(stable=escape_json(text)))


def render(
    selection: Selection, stable: StableBlock, searchable: tuple[str, ...], tag: str, count: TokenCount
) -> Injection:
    """The whole injection; the stable block keeps its bytes."""
    volatile = build_volatile_block(selection.volatile, selection.items, tag)
    tools = add_called_tools(stable.tools, selection.tools) if selection.tools else stable.tools
    return Injection(
        selection,
        stable.text,
        volatile,
        tools,
        stable.tokens + count(volatile) + sum(one.tokens for one in selection.tools),
        replace(stable.texts, volatile=escape_json(volatile)),
        searchable,
    )


def add_items(injection: Injection, items: tuple[RequestItem, ...], tag: str, count: TokenCount) -> Injection:
    """The same injection with the caller's items in its volatile block; they are never dropped."""
    old = injection.selection
    volatile = build_volatile_block(old.volatile, items, tag)
    added = count(volatile) - count(injection.volatile)
    room = max(0, old.budget - sum(placed.tokens for placed in (*old.stable, *old.volatile, *old.tools)))
    selection = replace(old, items=items)
    if added > room:
        notice = Notice("over_budget", "items", f"The items need {added} tokens, but only {room} were left.")
        selection = replace(selection, warnings=(*old.warnings, notice))
    return replace(
        injection,
        selection=selection,
        volatile=volatile,
        tokens=injection.tokens + added,
        texts=replace(injection.texts, volatile=escape_json(volatile)),
    )


def build_stable_block(
    placed: Sequence[PlacedResource], catalogue: Sequence[Omission], tag: str, tools: OwnTools
) -> str:
    """Always resources and the catalogue; "" when there is neither."""
    entries = [format_entry(one.candidate.resource.name, one.text) for one in placed]
    return frame_block(entries, build_catalogue(catalogue, tools), tag)


def build_volatile_block(placed: Sequence[PlacedResource], items: Sequence[RequestItem], tag: str) -> str:
    """Resources that depend on the question, and the caller's items."""
    entries = [format_entry(one.candidate.resource.name, one.text) for one in placed]
    return frame_block([*entries, *(format_entry(item.name, item.text) for item in items)], [], tag)


def frame_block(entries: Sequence[str], catalogue: Sequence[str], tag: str) -> str:
    sections = []
    if entries:
        sections.append(f"--- Context [{tag}] ---\n" + "\n\n".join(entries))
    if catalogue:
        sections.append(f"--- Available Reference Materials [{tag}] ---\n" + "\n".join(catalogue))
    return "\n\n".join(sections) + f"\n--- End [{tag}] ---" if sections else ""


def format_entry(name: str, text: str) -> str:
    """One resource as it appears in a block."""
    return f"[{flatten(name)}]\n{neutralize(text)}"


def build_catalogue(catalogue: Sequence[Omission], tools: OwnTools) -> list[str]:
    if not catalogue:
        return []
    lines = [f"Use {tools.get} with an ID.", *format_catalogue(catalogue[:CATALOGUE_CAP])]
    if len(catalogue) > CATALOGUE_CAP:
        lines.append(f"{len(catalogue) - CATALOGUE_CAP} more: {tools.list} finds them.")
    return lines


def format_catalogue(catalogue: Iterable[Omission]) -> Iterable[str]:
    for left in catalogue:
        resource = left.candidate.resource
        yield f"- **{flatten(resource.name)}** (ID: {resource.id})"
        yield f"  {flatten(resource.description) or NO_DESCRIPTION}"


def flatten(text: str) -> str:
    """A name or description as it appears in a line of a block."""
    return " ".join(neutralize(text).split())
