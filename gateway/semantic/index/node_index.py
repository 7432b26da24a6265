"""The nodes of one workspace by their words, and what changes when the tree or a text does."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from gateway.domain.content import NO_CONTENT, NodeContent
from gateway.domain.lru import LruCache
from gateway.domain.node import Node
from gateway.domain.node_tree import EMPTY_TREE, NodeTree
from gateway.domain.search import NodeMatch, NodeQuery
from gateway.domain.snapshot import Snapshot
from gateway.semantic.index.lexical import extract_terms
from gateway.semantic.index.reader_groups import ReaderGroups, group_by_readers
from gateway.semantic.index.word_index import IndexedDocument, WordIndex, WordView

LONGEST_BODY = 20_000  # characters of a node that are indexed
TITLE = 3  # times that words of a title count
MOST_VALUES = 100  # of a node's properties
MOST_VIEWS = 32  # of one index: sets of readers

# Words that tell no node from others, as `extract_terms` writes them.
FUNCTION_WORDS = frozenset(
    extract_terms(
        "a about also am an and any are as at be been but by can could did do does for from had has have he her his "
        "how i if in into is it its me my no not of on or our out please she should show so some tell than that the "
        "their them then there these they this those to up us was we were what when where which who whom why will with "
        "would you your der die das den dem des ein eine einer eines und oder aber ist sind war mit von für auf aus "
        "bei wie was wer wo ich du er sie es wir ihr nicht zu im am el la los las un una y o de en que es son "
        "con por para le les des et est dans pour avec qui"
    )
)


@dataclass(frozen=True, slots=True)
class FoundNodes:
    """Matches, best first, and among how many nodes."""

    matches: Sequence[NodeMatch]
    total: int


@dataclass(frozen=True, slots=True, eq=False)
class GroupedWords:
    """Words and the groups that their numbers stand for: replaced together, so that a search sees both or neither."""

    groups: ReaderGroups = field(default_factory=lambda: ReaderGroups(((),), {}, frozenset()))
    words: WordIndex = field(default_factory=WordIndex)
    views: LruCache[frozenset[str], WordView] = field(default_factory=lambda: LruCache(MOST_VIEWS))

    def get_view(self, readers: frozenset[str]) -> WordView:
        """The words as somebody sees them."""
        known = self.groups.reduce(readers)
        view = self.views.get(known)
        if view is None:
            view = self.words.restrict(self.groups.list_permitted(known))
            self.views.put(known, view)
        return view


@dataclass(slots=True)
class NodeIndex:
    """The index of one workspace, and what it was made of."""

    tree: NodeTree = EMPTY_TREE
    contents: Mapping[str, NodeContent] = field(default_factory=dict)  # of policies
    grouped: GroupedWords = field(default_factory=GroupedWords)

    def follow(self, snapshot: Snapshot, changed: Collection[str]) -> list[Node]:
        """Forget what is gone and who may no longer read what; the nodes that have to be indexed, or indexed anew."""
        tree, former = snapshot.tree, self.tree
        changed = {*changed, *self._find_rewritten(snapshot.contents)}
        self.contents = snapshot.contents
        if former is tree:
            return [node for id in changed if (node := tree.get(id)) is not None]
        groups, words = group_by_readers(tree), self.grouped.words
        gone = [id for id in words.places if id not in tree.ids]
        words = (words.revise({}, gone) if gone else words).regroup(groups.numbers)
        self.grouped = GroupedWords(groups, words)
        return [node for node in tree.nodes.values() if node.id in changed or not self._knows(node, former)]

    def add(self, nodes: Sequence[Node], contents: Mapping[str, NodeContent]) -> None:
        """Index nodes, or index them anew."""
        groups, documents = self.grouped.groups, {}
        for node in nodes:
            content, group = contents.get(node.id, NO_CONTENT), groups.numbers.get(node.id, -1)
            documents[node.id] = IndexedDocument(list_words(node, content), group, content.updated_at or 0.0)
        self.grouped = GroupedWords(groups, self.grouped.words.revise(documents))

    def search(self, readers: frozenset[str], query: NodeQuery, limit: int) -> FoundNodes:
        """What somebody finds, best first."""
        view = self.grouped.get_view(readers)
        matches = view.search([words for text in query.texts if (words := split_words(text))], limit)
        found = {one.id: NodeMatch(one.id, one.score) for one in matches}
        typed = view.search([[make_type_word(one)] for one in query.types], limit) if query.types else []
        for one in typed:
            if one.id not in found or found[one.id].score < query.type_score:
                found[one.id] = NodeMatch(one.id, query.type_score, by_type=True)
        return FoundNodes(sorted(found.values(), key=lambda one: -one.score)[:limit], view.count)

    def forget(self) -> None:
        """Compare everything the next time: nobody knows how far the last attempt came."""
        self.tree, self.contents = EMPTY_TREE, {}

    def _find_rewritten(self, contents: Mapping[str, NodeContent]) -> Iterator[str]:
        if contents is not self.contents:
            known = self.contents
            yield from (id for id, one in contents.items() if known.get(id) is not one)

    def _knows(self, node: Node, former: NodeTree) -> bool:
        """Whether a node is indexed by the title and type that it has."""
        if node.id not in self.grouped.words.places:
            return False
        known = former.get(node.id)
        return known is node or (known is not None and (known.title, known.type) == (node.title, node.type))


def list_words(node: Node, content: NodeContent) -> list[str]:
    """The words by which a node is found; none if it says nothing itself."""
    if not (content.body or content.properties):
        return []
    values = " ".join(islice(list_values(content.properties), MOST_VALUES))
    title = split_words(node.title)
    return [
        make_type_word(node.type),
        *split_words(f"{node.type} {values} {content.body[:LONGEST_BODY]}"),
        *TITLE * title,
    ]


def make_type_word(type: str) -> str:
    """A word that stands for a type; no text has it."""
    return f"type:{type}"


def split_words(text: str) -> list[str]:
    """The words of a text that tell nodes apart."""
    return [word for word in extract_terms(text) if word not in FUNCTION_WORDS]


def list_values(value: Any) -> Iterator[str]:
    """The texts and numbers in a property, however deep."""
    if isinstance(value, Mapping):
        for one in value.values():
            yield from list_values(one)
    elif isinstance(value, list):
        for one in value:
            yield from list_values(one)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)[:1000]
