"""The nodes of one workspace by their words and vectors, and what changes when the tree or a text does."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import numpy as np

from gateway.domain.content import NO_CONTENT, NodeContent
from gateway.domain.lru import LruCache
from gateway.domain.node import Node
from gateway.domain.node_tree import EMPTY_TREE, NodeTree
from gateway.domain.search import NodeMatch, NodeQuery
from gateway.domain.snapshot import Snapshot
from gateway.semantic.index.compact_index import Flags
from gateway.semantic.index.document_numbers import DocumentNumbers
from gateway.semantic.index.document_vectors import DocumentCosine, DocumentVectors, Numbers
from gateway.semantic.index.lexical import extract_terms
from gateway.semantic.index.passages import split_text
from gateway.semantic.index.reader_groups import ReaderGroups, group_by_readers
from gateway.semantic.index.relevance import SIMILAR, confirm_words, rate_cosine
from gateway.semantic.index.vector_index import Floats
from gateway.semantic.index.word_index import IndexedDocument, WordIndex
from gateway.semantic.index.word_view import WordView

LONGEST_BODY = 20_000  # characters of a node that are indexed
TITLE = 3  # times that words of a title count
MOST_VALUES = 100  # of a node's properties
MOST_VIEWS = 32  # of one index: sets of readers
QUICK_CHARACTERS, QUICK_TYPES = 600, 3  # of a query that is looked up on the event loop
MARGIN = 0.1  # of a cosine below the one that counts: what is still a match, of a score that callers may refuse

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


class FoundNodes(msgspec.Struct, frozen=True):
    """Matches, best first, and among how many nodes."""

    matches: Sequence[NodeMatch]
    total: int
    unknown: Sequence[str] = ()  # ids of matches that have no vector yet, if vectors were compared


class NodeChanges(NamedTuple):
    """What is new in a tree."""

    nodes: list[Node]  # to be indexed, or indexed anew
    gone: list[str]  # ids


class MeantQuestion(msgspec.Struct, frozen=True, eq=False):
    """A question as vectors, and the vectors that it is compared with."""

    queries: Floats
    vectors: DocumentVectors


class VisibleVectors(NamedTuple):
    """Which rows of some vectors somebody may see."""

    vectors: DocumentVectors
    rows: Flags


class GroupedWords(msgspec.Struct, frozen=True, eq=False):
    """Words and the groups that their numbers stand for: replaced together, so that a search sees both or neither."""

    groups: ReaderGroups = msgspec.field(default_factory=lambda: ReaderGroups(((),), {}, frozenset()))
    words: WordIndex = msgspec.field(default_factory=WordIndex)
    numbers: Numbers = msgspec.field(
        default_factory=lambda: np.empty(0, np.int32)
    )  # by row of the words: as vectors know it
    views: LruCache[frozenset[str], WordView] = msgspec.field(default_factory=lambda: LruCache(MOST_VIEWS))
    visible: LruCache[frozenset[str], VisibleVectors] = msgspec.field(default_factory=lambda: LruCache(MOST_VIEWS))

    def find_view(self, readers: frozenset[str]) -> WordView | None:
        """The words as somebody sees them, if that is known already."""
        return self.views.get(self.groups.reduce(readers))

    def get_view(self, readers: frozenset[str]) -> WordView:
        """The words as somebody sees them."""
        known = self.groups.reduce(readers)
        view = self.views.get(known)
        if view is None:
            view = WordView.open(self.words, self.groups.list_permitted(known))
            self.views.put(known, view)
        return view

    def find_visible(self, readers: frozenset[str], vectors: DocumentVectors) -> Flags:
        """The rows of vectors whose nodes somebody may read."""
        known = self.groups.reduce(readers)
        kept = self.visible.get(known)
        if kept is None or kept.vectors is not vectors:
            rows = vectors.find_rows(self.numbers[self.get_view(readers).visible])
            kept = VisibleVectors(vectors, rows)
            self.visible.put(known, kept)
        return kept.rows


class NodeIndex(msgspec.Struct):
    """The index of one workspace, and what it was made of."""

    numbers: DocumentNumbers = msgspec.field(default_factory=DocumentNumbers)
    tree: NodeTree = EMPTY_TREE
    contents: Mapping[str, NodeContent] = msgspec.field(default_factory=dict)  # of policies
    grouped: GroupedWords = msgspec.field(default_factory=GroupedWords)

    def follow(self, snapshot: Snapshot, changed: Collection[str]) -> NodeChanges:
        """Forget what is gone and who may no longer read what; the nodes that have to be indexed, or indexed anew."""
        tree, former = snapshot.tree, self.tree
        changed = {*changed, *self._find_rewritten(snapshot.contents)}
        self.contents = snapshot.contents
        if former is tree:
            return NodeChanges([node for id in changed if (node := tree.get(id)) is not None], [])
        groups, words = group_by_readers(tree), self.grouped.words
        gone = [id for id in words.places if id not in tree.ids]
        words = (words.revise({}, gone) if gone else words).regroup(groups.numbers)
        self.grouped = GroupedWords(groups, words, self._number(words))
        nodes = [node for node in tree.nodes.values() if node.id in changed or not self._knows(node, former)]
        return NodeChanges(nodes, gone)

    def add(self, nodes: Sequence[Node], contents: Mapping[str, NodeContent]) -> None:
        """Index nodes, or index them anew."""
        groups, documents = self.grouped.groups, {}
        for node in nodes:
            content, group = contents.get(node.id, NO_CONTENT), groups.numbers.get(node.id, -1)
            documents[node.id] = IndexedDocument(list_words(node, content), group, content.updated_at or 0.0)
        words = self.grouped.words.revise(documents)
        self.grouped = GroupedWords(groups, words, self._number(words))

    def list_latest(self, count: int) -> list[str]:
        """The ids of nodes that say something, the latest changed first."""
        words = self.grouped.words
        rows = np.flatnonzero((words.groups >= 0) & (words.lengths > 0))
        order = np.argsort(-words.changed[rows], kind="stable")[:count]
        return [words.ids[row] for row in rows[order].tolist()]

    def list_passages(self, contents: Mapping[str, NodeContent]) -> dict[str, list[str]]:
        """What of nodes gets vectors, by id."""
        here = ((self.tree.get(id), content) for id, content in contents.items())
        return {node.id: list_passages(node, content) for node, content in here if node is not None}

    def is_quick(self, readers: frozenset[str], query: NodeQuery) -> bool:
        """Whether a search by words alone takes about a millisecond; only then may it run on the event loop."""
        view = self.grouped.find_view(readers)
        short = sum(map(len, query.texts)) <= QUICK_CHARACTERS and len(query.types) <= QUICK_TYPES
        return short and view is not None and view.is_quick

    def search(
        self, readers: frozenset[str], query: NodeQuery, limit: int, meant: MeantQuestion | None = None
    ) -> FoundNodes:
        """What somebody finds, best first: by words, by meaning where there are vectors, and by type."""
        grouped = self.grouped
        view = grouped.get_view(readers)
        matches = view.search([words for text in query.texts if (words := split_words(text))], limit)
        found = {one.id: NodeMatch(one.id, one.score) for one in matches}
        unknown: list[str] = []
        if meant is not None:
            visible = grouped.find_visible(readers, meant.vectors)
            cosines = meant.vectors.compare(meant.queries, visible, list(found))
            unknown = [id for id in found if id not in cosines]
            add_meanings(found, cosines, SIMILAR if query.similar is None else query.similar)
        typed = view.search([[make_type_word(one)] for one in query.types], limit) if query.types else []
        for one in typed:
            if one.id not in found or found[one.id].score < query.type_score:
                found[one.id] = NodeMatch(one.id, query.type_score, by_type=True)
        return FoundNodes(sorted(found.values(), key=lambda one: -one.score)[:limit], view.count, unknown)

    def forget(self) -> None:
        """Compare everything the next time: nobody knows how far the last attempt came."""
        self.tree, self.contents = EMPTY_TREE, {}

    def _number(self, words: WordIndex) -> Numbers:
        """The numbers of the nodes by row; what has not moved is not looked up again."""
        former, known = self.grouped.words, self.grouped.numbers
        stays = len(former.ids) if words.ids[: len(former.ids)] == former.ids else 0
        return np.append(known[:stays], np.array(self.numbers.number(words.ids[stays:]), np.int32))

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


def add_meanings(found: dict[str, NodeMatch], cosines: Mapping[str, DocumentCosine], similar: float) -> None:
    """Rate what words found by its meaning too, and add what only vectors find."""
    for id in sorted(cosines):
        match, (cosine, whole) = found.get(id), cosines[id]
        meaning = rate_cosine(cosine, similar)
        if match is not None:
            words = confirm_words(match.score, cosine) if whole else match.score
            found[id] = NodeMatch(id, max(words, meaning), by_meaning=meaning > words)
        elif cosine >= similar - MARGIN:
            found[id] = NodeMatch(id, meaning, by_meaning=True)


def list_passages(node: Node, content: NodeContent) -> list[str]:
    """The pieces of a node that get vectors, each with its title; none if it says nothing itself."""
    said = [
        f"{name}: {' '.join(list_values(value))}" for name, value in islice(content.properties.items(), MOST_VALUES)
    ]
    text = "\n\n".join([content.body[:LONGEST_BODY], "\n".join(said)]).strip()
    return [f"{node.title}\n\n{piece}" for piece in split_text(text)]


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
