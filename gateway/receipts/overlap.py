"""How much of a resource shows in an answer: the share of its distinctive phrases that occur there.

A phrase is three words in a row, in any case, one of which has more than three letters. It is distinctive if it occurs
neither in what the client sent nor in another resource of the same exchange. What an answer says in other words is not
recognised: the figure is a lower bound. Nothing of the answer is kept.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain.exchange import Exchange
from gateway.domain.lru import LruCache

SHORT = 3  # letters; a phrase of such words only ("one of the") says nothing
MAX_PHRASES = 100_000  # of resources, kept between exchanges
SHOWN_PHRASES = 2  # from so many on, a resource counts as shown

# Languages that put no spaces between words are split into characters.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|[^\W\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")
_IDEOGRAPH = "\u3040"

Phrases = frozenset[int]  # hashes, which mean nothing outside this process


class SentMessage(msgspec.Struct):
    """A message of a request, as far as it is text."""

    content: Any = None


class SentRequest(msgspec.Struct):
    """The messages of a request."""

    messages: list[SentMessage] = []
    input: Any = None  # of a response: a text or items


_decode = msgspec.json.Decoder(SentRequest).decode


class OverlapMeter:
    """Measures exchanges, one thread at a time."""

    def __init__(self) -> None:
        self._phrases: LruCache[str, Phrases] = LruCache(weight=MAX_PHRASES)
        self._distinct: LruCache[tuple[str, ...], list[Phrases]] = LruCache(weight=MAX_PHRASES)

    def measure(self, texts: Mapping[str, str], request: bytes, answer: str) -> list[dict[str, Any]]:
        """For each resource its distinctive phrases, and how many of them the answer has; without any it is absent."""
        try:
            asked = find_triples(" ".join(read_messages(request)))
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return []
        said = find_phrases(answer) - asked
        measured = []
        for id, own in zip(texts, self._find_distinct(tuple(texts.values())), strict=True):
            phrases = len(own) - len(own & asked)
            if phrases:
                measured.append({"id": id, "phrases": phrases, "shown": len(own & said)})
        return measured

    def _find_distinct(self, texts: tuple[str, ...]) -> Sequence[Phrases]:
        """The phrases that only one of the texts has."""
        known = self._distinct.get(texts)
        if known is None:
            every = [self._find(text) for text in texts]
            seen: set[int] = set()
            shared: set[int] = set()
            for phrases in every:
                shared |= seen & phrases
                seen |= phrases
            known = [phrases - shared for phrases in every]
            self._distinct.put(texts, known, sum(map(len, known)))
        return known

    def _find(self, text: str) -> Phrases:
        phrases = self._phrases.get(text)
        if phrases is None:
            phrases = find_phrases(text)
            self._phrases.put(text, phrases, len(phrases))
        return phrases


def find_triples(text: str) -> Phrases:
    """Every three words in a row, phrases among them: what only takes away from phrases need not be told apart."""
    words = _WORD.findall(text.casefold())
    return frozenset(map(hash, zip(words, words[1:], words[2:], strict=False)))


def find_phrases(text: str) -> Phrases:
    words = _WORD.findall(text.casefold())
    triples = zip(words, words[1:], words[2:], strict=False)
    return frozenset(hash(one) for one in triples if max(map(len, one)) > SHORT or one[0][0] >= _IDEOGRAPH)


def read_messages(request: bytes) -> Iterator[str]:
    """The text of all messages that a client sent."""
    sent = _decode(request)
    items = msgspec.convert(sent.input, list[SentMessage]) if isinstance(sent.input, list) else []
    for message in (*sent.messages, *items, SentMessage(sent.input if isinstance(sent.input, str) else None)):
        parts = message.content if isinstance(message.content, list) else [{"text": message.content}]
        yield from (one["text"] for one in parts if isinstance(one, dict) and isinstance(one.get("text"), str))


def list_texts(exchange: Exchange, fetched: frozenset[str]) -> dict[str, str]:
    """The texts that the model was given, by resource: placed ones, and what it fetched."""
    if exchange.injection is None:
        return {}
    selection = exchange.injection.selection
    texts = {one.candidate.resource.id: one.text for one in (*selection.stable, *selection.volatile)}
    for left in selection.catalogue if fetched else ():
        if left.candidate.resource.id in fetched:
            texts[left.candidate.resource.id] = left.candidate.resource.text or ""
    return texts
