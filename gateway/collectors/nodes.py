"""Nodes that collectors propose become found items: readers are checked first, then all texts are read at once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

import msgspec
import orjson

from gateway.domain.collector import CollectorOrder, CollectorScope, FoundItem
from gateway.domain.content import NO_CONTENT, ContentReader, NodeContent
from gateway.domain.hints import NO_HINTS
from gateway.domain.node import Node
from gateway.domain.node_tree import NodeTree

MARK = "[…]"  # where a text was cut
MAX_PROPERTIES = 40  # of a node that are shown
LOOKED_AT = 64_000  # characters of a text in which an excerpt is looked for
MAX_VALUE = 400  # characters of a property that are shown
Truncation = Literal["extractive", "keep_start", "keep_end", "summarize", "none"]
EDITED, CREATED = 1.0, 0.75  # how much users have to do with what they wrote


class ProposedNode(msgspec.Struct):
    """A node that may be worth showing, and why."""

    node: Node
    score: float  # 0..1
    why: str
    limit: int | None = None  # characters of its text; None: all of it
    affinity: float | None = None  # None: as its authors tell
    truncate: str = "extractive"


def is_about_content(scope: CollectorScope, collector: str, always: bool = False) -> bool:
    """Whether a collector of nodes is asked: requests of the scope name a node, a type of request, or hints.

    All others pay nothing for content, unless an option says that they are meant too; nor does anybody where no node
    says anything. A recipe says itself whom it asks.
    """
    asked, recipe = scope.scope.request, scope.scope.recipe
    if not scope.snapshot.has_texts:
        return False
    if recipe is not None:
        return collector in recipe.collectors
    return always or scope.scope.node is not None or asked.type is not None or asked.hints is not NO_HINTS


class NodeItems(NamedTuple):
    """The items of nodes, and how many nodes were not read because the texts of all together are too large."""

    items: tuple[FoundItem, ...] = ()
    unread: int = 0


async def make_items(order: CollectorOrder, content: ContentReader, proposed: Iterable[ProposedNode]) -> NodeItems:
    """The items of the proposed nodes that the caller may read and that say something, each node once."""
    tree = order.snapshot.tree
    first: dict[str, ProposedNode] = {}
    for one in proposed:
        first.setdefault(one.node.id, one)
    permitted = [one for one in first.values() if tree.may_read(order.readers, one.node)]
    if not permitted:
        return NodeItems()
    ids = [one.node.id for one in permitted]
    contents = await content.read(order.workspace, ids)
    maker = ItemMaker(order)
    items = (maker.make(one, contents.get(one.node.id, NO_CONTENT)) for one in permitted)
    made = tuple(item for item in items if item is not None)
    return NodeItems(made, count_unread(order.workspace, content, ids, contents))


def count_unread(
    workspace: str, content: ContentReader, ids: Sequence[str], contents: Mapping[str, NodeContent]
) -> int:
    """How many of these nodes were not read because the texts of all together are too large."""
    return 0 if len(contents) == len(ids) else len(ids) - content.count_readable(workspace, ids)


class ItemMaker:
    """Makes the items of one request; what several of them share is looked up once."""

    def __init__(self, order: CollectorOrder) -> None:
        self._tree, self._user = order.snapshot.tree, order.user
        self._steps = None if order.scope.node is None else order.scope.node.path.split("/")
        question = order.question.text[:MAX_VALUE].lower() if order.question is not None else ""
        self._words = frozenset(question.split())
        self._titles: dict[str | None, tuple[str, ...]] = {}  # above the children of a path

    def make(self, proposed: ProposedNode, content: NodeContent) -> FoundItem | None:
        """A node as an item; None if there is nothing to show."""
        node = proposed.node
        text = render_content(content)
        if not text:
            return None
        titles = self._titles.get(node.parent)
        if titles is None:
            titles = self._titles[node.parent] = list_titles_above(self._tree, node)
        return FoundItem(
            id=node.id,
            kind="node",
            type=node.type,
            title=node.title,
            text=text if proposed.limit is None else excerpt(text, proposed.limit, self._words),
            score=max(0.0, min(1.0, proposed.score)),
            why=proposed.why,
            breadcrumb=titles,
            modified=content.updated_at,
            distance=None if self._steps is None else measure_distance(self._steps, node.path.split("/")),
            affinity=rate_authors(content, self._user) if proposed.affinity is None else proposed.affinity,
            truncate=proposed.truncate,
        )


def render_content(content: NodeContent) -> str:
    """Properties, a line each, and the body."""
    said = "\n".join(format_properties(content.properties)) if content.properties else ""
    body = content.body.strip()
    return f"{said}\n\n{body}" if said and body else said or body


def format_properties(properties: Mapping[str, Any]) -> Iterator[str]:
    """A line for each property that says something."""
    for name, value in islice(properties.items(), MAX_PROPERTIES):
        text = format_value(value)
        if text:
            yield f"{name}: {text}"


def format_value(value: Any) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, list) and all(isinstance(one, str | int | float) for one in value):
        text = ", ".join(map(format_value, value[:MAX_PROPERTIES]))
    elif value is None:
        return ""
    else:
        text = orjson.dumps(value).decode()
    text = " ".join(text[: 2 * MAX_VALUE].split())
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]} {MARK}"


def rate_authors(content: NodeContent, user: str) -> float | None:
    """How much a user has to do with a node; None: nobody knows."""
    if content.updated_by == user:
        return EDITED
    return CREATED if content.created_by == user else None


def list_titles_above(tree: NodeTree, node: Node) -> tuple[str, ...]:
    """The titles from the root down to the parent; whoever may read a node may read those too."""
    titles, path = [], node.parent
    while path is not None:
        above = tree.nodes[path]
        titles.append(above.title)
        path = above.parent
    titles.reverse()
    return tuple(titles)


def measure_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """The steps in the tree from one path to another; roots are one step apart from each other's parent: nothing."""
    common = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        common += 1
    return len(one) + len(other) - 2 * common


def excerpt(text: str, limit: int, words: frozenset[str] = frozenset()) -> str:
    """At most about `limit` characters of a text: its beginning, or the part that has most of some words."""
    if len(text) <= limit:
        return text
    whole = len(text)
    text = text[: max(LOOKED_AT, limit)]
    pieces = split_pieces(text, limit)
    counts = [len(words.intersection(piece.lower().split())) for piece in pieces] if words else [0]
    best = counts.index(max(counts))
    before, after = (f"{MARK} " if best else ""), (f" {MARK}" if best < len(pieces) - 1 or whole > len(text) else "")
    return f"{before}{pieces[best]}{after}"


def split_pieces(text: str, limit: int) -> Sequence[str]:
    """Pieces of at most `limit` characters that end with a paragraph, a sentence or a word, if one ends there."""
    pieces, start = [], 0
    while start < len(text):
        end = min(len(text), start + limit)
        if end < len(text):
            half = start + limit // 2
            ends = (text.rfind("\n", half, end), text.rfind(". ", half, end) + 1, text.rfind(" ", half, end))
            end = next((one for one in ends if one > half), end)
        pieces.append(text[start:end].strip())
        start = end
    return [piece for piece in pieces if piece] or [""]
