"""The names by which people speak of content: titles, keys and paths, found in a text as whole words."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gateway.domain.node import Node

LONGEST_TEXT = 2_000  # characters of a text that are looked at
LONGEST_NAME = 12  # words
MAX_SHARING = 16  # nodes; a name that more of them bear says nothing
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


@dataclass(frozen=True, slots=True)
class Mention:
    """A name that a text holds, and the nodes that bear it."""

    words: int
    paths: tuple[str, ...]


class ContentNames:
    """Every name of a content tree; `build` takes time in proportion to the tree, `find` to the text."""

    def __init__(self, nodes: Mapping[str, Node] | None = None) -> None:
        self._nodes = nodes or {}
        self._paths: dict[str, tuple[str, ...]] = {}  # by name, its words joined by a space
        self._lengths: dict[str, int] = {}  # by first word: the lengths of the names that begin with it, as bits
        self.is_built = not self._nodes

    def build(self) -> None:
        """Index all names; until then none is found."""
        paths: dict[str, tuple[str, ...]] = {}
        lengths: dict[str, int] = {}
        for node in self._nodes.values():
            for words in list_names(node):
                name = " ".join(words)
                sharing = paths.get(name, ())
                if len(sharing) <= MAX_SHARING:
                    paths[name] = (*sharing, node.path)
                lengths[words[0]] = lengths.get(words[0], 0) | 1 << len(words)
        self._paths, self._lengths = paths, lengths
        self.is_built = True

    def find(self, text: str) -> list[Mention]:
        """The names in a text, the longest first; of those that overlap, the one that begins first."""
        words = split_words(text[:LONGEST_TEXT])
        found, place = [], 0
        while place < len(words):
            mention = self._find_at(words, place)
            place += 1
            if mention is not None:
                found.append(mention)
                place += mention.words - 1
        return sorted(found, key=lambda one: -one.words)

    def _find_at(self, words: list[str], place: int) -> Mention | None:
        """The longest name that begins with a word."""
        lengths = self._lengths.get(words[place], 0)
        for count in range(lengths.bit_length() - 1, 0, -1):
            if lengths >> count & 1 and place + count <= len(words):
                paths = self._paths.get(" ".join(words[place : place + count]))
                if paths is not None and len(paths) <= MAX_SHARING:
                    return Mention(count, paths)
        return None


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
