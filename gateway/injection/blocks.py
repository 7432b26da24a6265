"""The blocks that the model sees: contexts in full, and the catalogue of what it can fetch."""

import hashlib
import hmac
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from gateway.domain.collector import Category, FoundItem
from gateway.domain.injection import Injection, OwnTools, PlacedTexts
from gateway.domain.json_text import escape_json
from gateway.domain.resource import Resource
from gateway.domain.retriever import Retriever
from gateway.domain.scope import RequestItem
from gateway.domain.selection import CatalogueView, CategoryCost, Notice, Omission, PlacedResource, Selection
from gateway.injection.called_tools import add_called_tools, charge_names
from gateway.injection.neutral import neutralize
from gateway.tokens import TokenCount

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
SHORT_NAME, SHORT_TAIL = 200, 16  # characters
NEEDS_QUERY = " (search: needs a query)"


@lru_cache(1024)
def compute_block_tag(secret: bytes, workspace: str) -> str:
    """The block tag: authors of content cannot guess it, and it never changes, so that prompts stay cacheable."""
    return hmac.new(secret, workspace.encode(), hashlib.sha256).hexdigest()[:8]


class StableBlock(msgspec.Struct, frozen=True):
    """What is the same for every question of a scope: always resources, catalogue, tools."""

    text: str
    tools: OwnTools | None
    texts: PlacedTexts
    saved: int = 0  # tokens


class Block(NamedTuple):
    """The text of a block, and the entries in it."""

    text: str
    entries: list[str]
    closed: bool = True  # its end follows the last entry

    def count_saved(self, count: TokenCount) -> int:
        """The tokens by which its entries cost less than their prices."""
        last = len(self.entries) - 1 if self.closed else None
        return sum(count_saved(entry, place == last, count) for place, entry in enumerate(self.entries))


def render_stable(selection: Selection, tools: OwnTools, tag: str, count: TokenCount) -> StableBlock:
    """The stable block; the tools are registered only where there is something to fetch."""
    registered = tools if selection.catalogue or selection.fetches else None
    block = build_stable_block(selection.stable, selection.catalogue, selection.view, tag, tools)
    return StableBlock(block.text, registered, PlacedTexts(stable=escape_json(block.text)), block.count_saved(count))


def render(
    selection: Selection, stable: StableBlock, searchable: tuple[str, ...], tag: str, count: TokenCount
) -> Injection:
    """The whole injection; the stable block keeps its bytes."""
    block = build_volatile_block(selection, tag)
    costs = add_cost(selection.costs, -stable.saved)
    selection, tools = replace(selection, costs=costs, saved=block.count_saved(count)), stable.tools
    if selection.tools:
        tools = add_called_tools(tools, selection.tools)
        selection = charge_names(selection, tools, count)
    return Injection(
        selection,
        stable.text,
        block.text,
        tools,
        selection.count_tokens(),
        replace(stable.texts, volatile=escape_json(block.text)),
        searchable,
    )


def count_frame(selection: Selection, tag: str, count: TokenCount) -> int:
    """The tokens of the marker around resources and items of a volatile block, and of its end."""
    resources = bool(selection.items) or any(not is_found(one.candidate.resource) for one in selection.volatile)
    end = count(format_end(tag)) if resources or selection.volatile or selection.notes else 0
    return end + (count(format_marker(CONTEXT, tag)) if resources else 0)


def add_cost(costs: Sequence[CategoryCost], frame: int) -> tuple[CategoryCost, ...]:
    return (*costs, CategoryCost(Category.FRAME, frame)) if frame else tuple(costs)


def add_items(injection: Injection, items: tuple[RequestItem, ...], tag: str, count: TokenCount) -> Injection:
    """The same injection with the caller's items in its volatile block; they are never dropped."""
    old = injection.selection
    selection = replace(old, items=items)
    block = build_volatile_block(selection, tag)
    added = sum(price_entry(format_entry(item.name, item.text), count) for item in items)
    frame = count_frame(selection, tag, count) - count_frame(old, tag, count)
    costs = add_cost((*old.costs, CategoryCost(Category.ITEMS, added)), frame)
    selection = replace(selection, costs=costs, saved=block.count_saved(count))
    tokens = selection.count_tokens()
    if tokens > old.budget:
        room = max(0, old.budget - tokens + added)
        notice = Notice("over_budget", Category.ITEMS, f"The items need {added} tokens, but only {room} were left.")
        selection = replace(selection, warnings=(*old.warnings, notice))
    texts = replace(injection.texts, volatile=escape_json(block.text))
    return replace(injection, selection=selection, volatile=block.text, tokens=tokens, texts=texts)


def build_stable_block(
    placed: Sequence[PlacedResource], catalogue: Sequence[Omission], view: CatalogueView, tag: str, tools: OwnTools
) -> Block:
    """Always resources and the catalogue; "" when there is neither."""
    entries = [format_placed(one) for one in placed]
    sections = [format_marker(CONTEXT, tag) + BREAK.join(entries)] if entries else []
    lines = build_catalogue(catalogue, view, tools) if catalogue else []
    if lines:
        sections.append(format_marker(MATERIALS, tag) + "\n".join(lines))
    return Block(close_block(sections, tag), entries, closed=not lines)


def build_volatile_block(selection: Selection, tag: str) -> Block:
    """What depends on the question and the caller: resources and items, then a section for each kind of found items."""
    resources = [format_placed(one) for one in selection.volatile if not is_found(one.candidate.resource)]
    sections = {CONTEXT: [*resources, *(format_entry(item.name, item.text) for item in selection.items)]}
    notes = {note.category: flatten(note.text) for note in selection.notes}
    for category, title in SECTIONS.items():
        found = [one for one in selection.volatile if one.category is category and is_found(one.candidate.resource)]
        sections[title] = (
            [format_placed(one) for one in found] or [notes[category]] if found or category in notes else []
        )
    texts = [format_marker(title, tag) + BREAK.join(entries) for title, entries in sections.items() if entries]
    return Block(close_block(texts, tag), [entry for entries in sections.values() for entry in entries])


def close_block(sections: Sequence[str], tag: str) -> str:
    return BREAK.join(sections) + f"\n{format_end(tag)}" if sections else ""


def price_entry(entry: str, count: TokenCount) -> int:
    """The most tokens that an entry costs, wherever it stands: behind it is a blank line or the end of its block.

    Tokenizers split behind line breaks, so that entries with the line breaks behind them add up to a block.
    """
    return count(entry + BREAK) + max(0, compare_places(entry, count))


def count_saved(entry: str, last: bool, count: TokenCount) -> int:
    """The tokens by which an entry costs less than its price where it stands."""
    more = compare_places(entry, count)
    return max(0, -more if last else more)


def compare_places(entry: str, count: TokenCount) -> int:
    """The tokens that an entry costs more, or less, as the last one of a block than before others.

    Tokenizers merge line breaks with what is between them and the last letter or digit, and with nothing else.
    """
    end = len(entry)
    while end and not entry[end - 1].isalnum():
        end -= 1
    tail = entry[end:]
    return _compare_tail(tail, count) if len(tail) <= SHORT_TAIL else _compare_tail.__wrapped__(tail, count)


@lru_cache(4096)
def _compare_tail(tail: str, count: TokenCount) -> int:
    """The same for what entries end with: most end with a full stop."""
    return count(tail + "\n") - count(tail + BREAK)


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
