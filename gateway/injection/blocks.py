"""The blocks that the model sees: contexts in full, and the catalogue of what it can fetch."""

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache

from gateway.domain.collector import Category, FoundItem
from gateway.domain.injection import Injection, OwnTools, PlacedTexts
from gateway.domain.json_text import escape_json
from gateway.domain.resource import Resource
from gateway.domain.retriever import Retriever
from gateway.domain.scope import RequestItem
from gateway.domain.selection import CatalogueView, CategoryCost, Notice, Omission, PlacedResource, Selection
from gateway.injection.called_tools import add_called_tools
from gateway.injection.neutral import neutralize

BREAK = "\n\n"
CONTEXT, MATERIALS = "Context", "Available Reference Materials"
# Sections of what collectors find, in the order in which they stand; `gateway/injection/neutral.py` guards their names.
SECTIONS = {
    Category.TASK: "Task Content",
    Category.FOCUS: "Focused Content",
    Category.SEMANTIC: "Related Content",
    Category.RELATIONS: "Connected Items",
    Category.ACTIVITY: "Recent Activity",
    Category.KNOWLEDGE: "Knowledge",
}
NO_DESCRIPTION = "Additional reference material"
SHORT_NAME = 200  # characters
NEEDS_QUERY = " (search: needs a query)"

TokenCount = Callable[[str], int]


@lru_cache(1024)
def compute_block_tag(secret: bytes, workspace: str) -> str:
    """The block tag: authors of content cannot guess it, and it never changes, so that prompts stay cacheable."""
    return hmac.new(secret, workspace.encode(), hashlib.sha256).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class StableBlock:
    """What is the same for every question of a scope: always resources, catalogue, tools."""

    text: str
    tools: OwnTools | None
    texts: PlacedTexts


def render_stable(selection: Selection, tools: OwnTools, tag: str) -> StableBlock:
    """The stable block; the tools are registered only where there is something to fetch."""
    registered = tools if selection.catalogue or selection.fetches else None
    text = build_stable_block(selection.stable, selection.catalogue, selection.view, tag, tools)
    return StableBlock(text, registered, PlacedTexts(stable=escape_json(text)))


def render(selection: Selection, stable: StableBlock, searchable: tuple[str, ...], tag: str) -> Injection:
    """The whole injection; the stable block keeps its bytes."""
    volatile = build_volatile_block(selection, tag)
    tools = add_called_tools(stable.tools, selection.tools) if selection.tools else stable.tools
    return Injection(
        selection,
        stable.text,
        volatile,
        tools,
        selection.count_tokens(),
        replace(stable.texts, volatile=escape_json(volatile)),
        searchable,
    )


def add_items(injection: Injection, items: tuple[RequestItem, ...], tag: str, count: TokenCount) -> Injection:
    """The same injection with the caller's items in its volatile block; they are never dropped."""
    old = injection.selection
    added = sum(count(format_entry(item.name, item.text) + BREAK) for item in items)
    costs = [CategoryCost(Category.ITEMS, added)]
    if all(is_found(one.candidate.resource) for one in old.volatile):
        end = 0 if old.volatile or old.notes else count(format_end(tag))
        costs.append(CategoryCost(Category.FRAME, count(format_marker(CONTEXT, tag)) + end))
    room = max(0, old.budget - injection.tokens - sum(one.tokens for one in costs[1:]))
    selection = replace(old, items=items, costs=(*old.costs, *costs))
    if added > room:
        notice = Notice("over_budget", Category.ITEMS, f"The items need {added} tokens, but only {room} were left.")
        selection = replace(selection, warnings=(*old.warnings, notice))
    volatile = build_volatile_block(selection, tag)
    return replace(
        injection,
        selection=selection,
        volatile=volatile,
        tokens=selection.count_tokens(),
        texts=replace(injection.texts, volatile=escape_json(volatile)),
    )


def build_stable_block(
    placed: Sequence[PlacedResource], catalogue: Sequence[Omission], view: CatalogueView, tag: str, tools: OwnTools
) -> str:
    """Always resources and the catalogue; "" when there is neither."""
    sections = []
    if placed:
        sections.append(format_marker(CONTEXT, tag) + BREAK.join(map(format_placed, placed)))
    if catalogue and (lines := build_catalogue(catalogue, view, tools)):
        sections.append(format_marker(MATERIALS, tag) + "\n".join(lines))
    return close_block(sections, tag)


def build_volatile_block(selection: Selection, tag: str) -> str:
    """What depends on the question and the caller: resources and items, then a section for each kind of found items."""
    resources = [format_placed(one) for one in selection.volatile if not is_found(one.candidate.resource)]
    entries = [*resources, *(format_entry(item.name, item.text) for item in selection.items)]
    sections = [format_marker(CONTEXT, tag) + BREAK.join(entries)] if entries else []
    notes = {note.category: note.text for note in selection.notes}
    for category, title in SECTIONS.items():
        found = [one for one in selection.volatile if one.category is category and is_found(one.candidate.resource)]
        if found:
            sections.append(format_marker(title, tag) + BREAK.join(map(format_placed, found)))
        elif category in notes:
            sections.append(format_marker(title, tag) + flatten(notes[category]))
    return close_block(sections, tag)


def close_block(sections: Sequence[str], tag: str) -> str:
    return BREAK.join(sections) + f"\n{format_end(tag)}" if sections else ""


def format_end(tag: str) -> str:
    return f"--- End [{tag}] ---"


def format_marker(label: str, tag: str) -> str:
    return f"--- {label} [{tag}] ---\n"


def format_placed(placed: PlacedResource) -> str:
    return format_resource(placed.candidate.resource, placed.text)


def format_resource(resource: Resource, text: str) -> str:
    """A resource as it appears in a block; a found item also has its type, and where and when it is from."""
    if not is_found(resource):
        return format_entry(resource.name, text)
    item: FoundItem = resource.data
    about = [_join_titles(item.breadcrumb)] if item.breadcrumb else []
    if item.modified is not None:
        about.append(f"modified {datetime.fromtimestamp(item.modified, UTC):%Y-%m-%d}")
    about += [f"source: {flatten(item.source)}"] if item.source else []
    lines = [f"[{flatten(item.title)}] [{flatten(item.type)}]", *([", ".join(about)] if about else [])]
    return "\n".join([*lines, neutralize(text)])


def is_found(resource: Resource) -> bool:
    """Whether a collector found it for this request: it is in no policy."""
    return isinstance(resource.data, FoundItem)


def format_entry(name: str, text: str) -> str:
    """One resource as it appears in a block."""
    return f"[{flatten(name)}]\n{neutralize(text)}"


def build_catalogue(catalogue: Sequence[Omission], view: CatalogueView, tools: OwnTools) -> list[str]:
    """The lines of the catalogue as far as it is shown; none if not even the last of them is."""
    if not view.listed and not view.told:
        return []
    lines = [format_hint(tools)]
    for place, left in enumerate(catalogue[: view.listed]):
        lines.append(format_line(left.candidate.resource))
        if place < view.described:
            lines.append(format_description(left.candidate.resource))
    hidden = len(catalogue) - view.listed
    return [*lines, *([format_more(hidden, tools)] if hidden else [])]


def format_hint(tools: OwnTools) -> str:
    return f"Use {tools.get} with an ID."


def format_more(hidden: int, tools: OwnTools) -> str:
    return f"{hidden} more: {tools.list} finds them."


def format_line(resource: Resource) -> str:
    return f"- **{flatten(resource.name)}** (ID: {resource.id})"


def format_description(resource: Resource) -> str:
    hint = NEEDS_QUERY if isinstance(resource.data, Retriever) else ""
    return f"  {flatten(resource.description) or NO_DESCRIPTION}{hint}"


def flatten(text: str) -> str:
    """A name or description as it appears in a line of a block."""
    return _flatten_name(text) if len(text) <= SHORT_NAME else " ".join(neutralize(text).split())


@lru_cache(4096)
def _flatten_name(text: str) -> str:
    """The same for what comes again: every title is written when it is counted and when it is placed."""
    return " ".join(neutralize(text).split())


@lru_cache(4096)
def _join_titles(titles: tuple[str, ...]) -> str:
    """What is above an item; items of one place share it."""
    return " / ".join(map(flatten, titles))
