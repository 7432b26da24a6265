"""The names by which people speak of content: titles, keys and paths, found in a text as whole words."""

import re
from collections.abc import Iterator, Mapping

import msgspec

from gateway.domain.node import Node
from gateway.domain.principal import ANY_GROUP, GROUP, may_read

ReaderLists = tuple[tuple[str, ...], ...]  # of a node and those above it that have one, outermost first

LONGEST_TEXT = 2_000  # characters of a text that are looked at
LONGEST_NAME = 12  # words
MAX_SHARING = 16  # nodes that a caller may read; a name that more of them bear says nothing
SHORTEST = 3  # letters of a name that is a single word

_WORD = re.compile(r"[^\W_]+")

# Words that do not tell a site or page from others.
COMMON = frozenset(
    _WORD.findall(
        "a about account all an and any app are article articles as at be blog but by can careers center centre co "
        "com contact das day de der dev die do docs documentation download el en et event events example faq features "
        "first for fr from get guide help her here his home how i if in index info intro introduction io is it its "
        "job jobs la last le legal les list login los main me menu more my name net new news no not of on one or org "
        "our overview page pages part people policy post posts press price prices pricing privacy product products "
        "project projects search section service services shop site sites so start store support team tell terms test "
        "that the their them there these this time to today topic topics two und us use used user users using via was "
        "we web website welcome what when where which who why will with work write www y year you your"
    )
)


class Mention(msgspec.Struct, frozen=True):
    """A name that a text holds, and the nodes that bear it and that the caller may read."""

    words: int
    paths: tuple[str, ...]


class SharedName(msgspec.Struct):
    """A name that many nodes bear, sorted by who may read them: a caller's are found without a look at all others."""

    by_reader: dict[str | None, dict[ReaderLists, list[str]]] = msgspec.field(default_factory=dict)  # None: everybody

    def add(self, lists: ReaderLists, path: str) -> None:
        """Note a node under everyone on its innermost list; of those with the same lists, as many as matter."""
        readers: set[str | None] = set(lists[-1]) if lists else {None}
        if any(name is not None and name.startswith(GROUP) for name in readers):
            readers.add(ANY_GROUP)
        for reader in readers:
            paths = self.by_reader.setdefault(reader, {}).setdefault(lists, [])
            if len(paths) <= MAX_SHARING:
                paths.append(path)

    def select(self, readers: frozenset[str]) -> list[str]:
        """The nodes that a caller may read, or more than MAX_SHARING of them."""
        found: dict[str, None] = {}
        for reader in (None, *readers):
            for lists, paths in self.by_reader.get(reader, {}).items():
                if all(may_read(readers, one) for one in lists):
                    found |= dict.fromkeys(paths)
                if len(found) > MAX_SHARING:
                    return list(found)
        return list(found)


class ContentNames:
    """Every name of a content tree; `build` takes time in proportion to the tree, `find` to the text.

    What a caller may not read is as if it were not there: it neither hides other nodes nor makes a name too common.
    """

    def __init__(self, nodes: Mapping[str, Node] | None = None) -> None:
        self._nodes = nodes or {}
        self._bearers: dict[str, tuple[str, ...] | SharedName] = {}  # by name, its words joined by a space
        self._lengths: dict[str, int] = {}  # by first word: the lengths of the names that begin with it, as bits
        self.is_built = not self._nodes

    def build(self) -> None:
        """Index all names; until then none is found."""
        bearers: dict[str, tuple[str, ...] | SharedName] = {}
        lengths: dict[str, int] = {}
        for node in self._nodes.values():
            for words in list_names(node):
                self._add(bearers, " ".join(words), node)
                lengths[words[0]] = lengths.get(words[0], 0) | 1 << len(words)
        self._bearers, self._lengths = bearers, lengths
        self.is_built = True

    def _add(self, bearers: dict[str, tuple[str, ...] | SharedName], name: str, node: Node) -> None:
        known = bearers.get(name, ())
        if isinstance(known, tuple) and len(known) < MAX_SHARING:
            bearers[name] = (*known, node.path)
            return
        if isinstance(known, tuple):
            shared = bearers[name] = SharedName()
            for path in known:
                shared.add(self._list_readers(self._nodes[path]), path)
            known = shared
        known.add(self._list_readers(node), node.path)

    def _list_readers(self, node: Node) -> ReaderLists:
        """The lists that a reader has to be on."""
        lists, at = [], node
        while True:
            if at.readers:
                lists.append(at.readers)
            if at.parent is None:
                return tuple(reversed(lists))
            at = self._nodes[at.parent]

    def find(self, text: str, readers: frozenset[str]) -> list[Mention]:
        """The names in a text, the longest first; of those that overlap, the one that begins first."""
        words = split_words(text[:LONGEST_TEXT])
        found, place = [], 0
        while place < len(words):
            mention = self._find_at(words, place, readers)
            place += 1
            if mention is not None:
                found.append(mention)
                place += mention.words - 1
        return sorted(found, key=lambda one: -one.words)

    def _find_at(self, words: list[str], place: int, readers: frozenset[str]) -> Mention | None:
        """The longest name that begins with a word."""
        lengths = self._lengths.get(words[place], 0)
        for count in range(lengths.bit_length() - 1, 0, -1):
            if lengths >> count & 1 and place + count <= len(words):
                bearers = self._bearers.get(" ".join(words[place : place + count]), ())
                paths = self._select(bearers, readers)
                if 0 < len(paths) <= MAX_SHARING:
                    return Mention(count, tuple(paths))
        return None

    def _select(self, bearers: "tuple[str, ...] | SharedName", readers: frozenset[str]) -> list[str]:
        if isinstance(bearers, SharedName):
            return bearers.select(readers)
        nodes = ((path, self._list_readers(self._nodes[path])) for path in bearers)
        return [path for path, lists in nodes if all(may_read(readers, one) for one in lists)]


def list_names(node: Node) -> Iterator[tuple[str, ...]]:
    """The title, the key and the path, as far as they can tell a node from others."""
    is_site = node.parent is None
    key = node.path.rpartition("/")[2]
    for name in {tuple(split_words(text)) for text in (node.title, key, node.path)}:
        if len(name) <= LONGEST_NAME and is_distinctive(name, is_site):
            yield name


def is_distinctive(name: tuple[str, ...], is_site: bool) -> bool:
    """Whether somebody who writes a name means its node: a single word does for sites, and where it is a code."""
    if all(word in COMMON for word in name):
        return False
    if len(name) > 1:
        return True
    (word,) = name
    return len(word) >= SHORTEST and (is_site or (not word.isalpha() and not word.isdigit()))


def split_words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
