"""Finds entities: whose name a question mentions, whose properties answer it, and who are similar in meaning.

Nothing that a caller may not read has any influence on what it finds, nor on the scores.
"""

from collections.abc import Mapping, Sequence
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from gateway.domain.knowledge import Entity
from gateway.domain.lru import LruCache
from gateway.domain.principal import may_read
from gateway.knowledge.entity_meaning import EntityMeaning
from gateway.knowledge.matches import EntityMatches, ScoredEntity, TypeFilter
from gateway.semantic.index.lexical import LexicalIndex, LexicalView, extract_terms
from gateway.semantic.index.vector_index import Floats, Rows

INDEXED_CHARACTERS = 2000  # of the properties of one entity
MOST_SENTENCES, MOST_TERMS = 24, 80  # of a query, and of each sentence
KEPT_VIEWS = 8  # for the callers who ask most: each takes about 20 bytes per entity
DIGITS, ROUNDING = 4, 1e-4  # of a score
# What is looked at on the event loop at most: entities times sentences, types and lists of readers, and of the query.
QUICK_ENTITIES, QUICK_LISTS, QUICK_SENTENCES, QUICK_CHARACTERS = 40_000, 100, 6, 600
NAME, TEXT, MEANING = 0.95, 0.9, 0.85  # the score of an entity that nothing but this speaks for, completely
# Words that say nothing about what a question is about.
ENGLISH = """a about after all also an and any are as at be been before but by can could did do does for from had has
have how i if in into is it its me more most my no not of on one or our please should so some tell than that the their
them then there these they this those to us was we were what when where which who why will with would you your"""
GERMAN = """aber als auch auf aus bei bitte das dass dem den der des die ein eine einem einen einer es für hat ich ihr
im ist kann mit nach nicht oder sich sie sind über um und uns von war was welche wer wie wir wird wo zu zum zur"""
FUNCTION_WORDS = frozenset(extract_terms(f"{ENGLISH} {GERMAN}"))

ViewKey = tuple[frozenset[int], frozenset[int]]


class VisibleEntities(msgspec.Struct, frozen=True, eq=False):
    """The entities that one caller may read and wants to see."""

    rows: Rows
    words: LexicalView
    places: Rows  # by label: the place of its entity in `rows`, -1 if that is hidden


class EntityIndex(msgspec.Struct, frozen=True, eq=False):
    """Entities by row, the postings of their texts, and those of their names and aliases (labels)."""

    entities: tuple[Entity, ...]
    texts: LexicalIndex
    labels: LexicalIndex
    owners: Rows  # by label: the row of its entity
    types: tuple[str, ...]
    type_codes: NDArray[np.int32]  # by row
    readers: tuple[tuple[str, ...], ...]  # every reader list
    reader_codes: NDArray[np.int32]  # by row
    _views: LruCache[ViewKey, VisibleEntities] = msgspec.field(default_factory=lambda: LruCache(KEPT_VIEWS))

    @classmethod
    def build(cls, entities: Sequence[Entity]) -> Self:
        texts = LexicalIndex.build([list_terms(one) for one in entities])
        labels = [(row, extract_terms(label)) for row, one in enumerate(entities) for label in (one.name, *one.aliases)]
        owners = np.array([row for row, _ in labels], np.intp)
        return cls._assemble(entities, texts, LexicalIndex.build([terms for _, terms in labels]), owners)

    def revise(self, changed: Mapping[str, Entity | None]) -> Self:
        """The index after some entities have changed, come or, with None, gone."""
        kept = [row for row, one in enumerate(self.entities) if one.id not in changed]
        new = [one for one in changed.values() if one is not None]
        entities = [*(self.entities[row] for row in kept), *new]
        rows = np.full(len(self.entities), -1, np.intp)
        rows[kept] = np.arange(len(kept))
        texts = self.texts.revise(rows, {len(kept) + at: list_terms(one) for at, one in enumerate(new)})
        stays = rows[self.owners] >= 0 if len(self.owners) else np.empty(0, np.bool_)
        places = np.where(stays, np.cumsum(stays) - 1, -1).astype(np.intp)
        added = [(len(kept) + at, label) for at, one in enumerate(new) for label in (one.name, *one.aliases)]
        first = int(stays.sum())
        terms = {first + at: extract_terms(label) for at, (_, label) in enumerate(added)}
        owners = np.concatenate([rows[self.owners[stays]], np.array([row for row, _ in added], np.intp)])
        return self._assemble(entities, texts, self.labels.revise(places, terms), owners)

    @classmethod
    def _assemble(cls, entities: Sequence[Entity], texts: LexicalIndex, labels: LexicalIndex, owners: Rows) -> Self:
        types = {name: code for code, name in enumerate(dict.fromkeys(one.type for one in entities))}
        readers = {names: code for code, names in enumerate(dict.fromkeys(one.readers for one in entities))}
        return cls(
            tuple(entities),
            texts,
            labels,
            owners,
            tuple(types),
            np.array([types[one.type] for one in entities], np.int32),
            tuple(readers),
            np.array([readers[one.readers] for one in entities], np.int32),
        )

    def search(
        self,
        sentences: Sequence[str],
        readers: frozenset[str],
        types: TypeFilter,
        limit: int,
        meaning: EntityMeaning | None = None,
        least: float = 0.0,
    ) -> EntityMatches:
        """The `limit` best entities for some sentences, by their words and, if it is known, by their meaning.

        None that scores less than `least` is of use; all that match are counted.
        """
        view = self.find_visible(readers, types)
        if not len(view.rows):
            return EntityMatches()
        scores = rate_words(self, view, sentences)
        if meaning is not None:
            scores = 1 - (1 - scores) * (1 - MEANING * meaning.rate(view.rows))
        matching = np.flatnonzero(scores > 0)
        best = matching
        if len(matching) > limit:
            best = matching[np.argpartition(-scores[matching], limit - 1)[:limit]]
        if least:
            best = best[scores[best] >= least - ROUNDING]
        rated = zip(view.rows[best].tolist(), scores[best].tolist(), strict=True)
        found = [ScoredEntity(self.entities[row], round(score, DIGITS)) for row, score in rated]
        found.sort(key=lambda one: (-one.score, one.entity.id))
        return EntityMatches(tuple(found), len(matching), len(view.rows))

    def is_quick(self, sentences: Sequence[str], readers: frozenset[str], types: TypeFilter) -> bool:
        """Whether a search by words alone takes about a millisecond; only then may it run on the event loop."""
        looked_at, lists = len(sentences) * len(self.entities), len(self.types) + len(self.readers)
        short = len(sentences) <= QUICK_SENTENCES and sum(map(len, sentences)) <= QUICK_CHARACTERS
        if not short or looked_at > QUICK_ENTITIES or lists > QUICK_LISTS:
            return False
        return self._views.get(self._make_view_key(readers, types)) is not None

    def _make_view_key(self, readers: frozenset[str], types: TypeFilter) -> ViewKey:
        """The numbers of the types that are wanted, and of the lists of readers that somebody is on."""
        wanted = frozenset(code for code, name in enumerate(self.types) if types.accepts(name))
        return wanted, frozenset(code for code, names in enumerate(self.readers) if may_read(readers, names))

    def find_visible(self, readers: frozenset[str], types: TypeFilter) -> VisibleEntities:
        """What a caller with these identities may see of these types."""
        wanted, allowed = key = self._make_view_key(readers, types)
        known = self._views.get(key)
        if known is None:
            seen = np.isin(self.type_codes, [*wanted]) & np.isin(self.reader_codes, [*allowed])
            rows = np.flatnonzero(seen)
            places = np.full(len(self.entities), -1, np.intp)
            places[rows] = np.arange(len(rows))
            known = VisibleEntities(
                rows, self.texts.restrict(rows), places[self.owners] if len(self.owners) else self.owners
            )
            self._views.put(key, known)
        return known


def rate_words(index: EntityIndex, view: VisibleEntities, sentences: Sequence[str]) -> Floats:
    """How much the words of the best sentence speak for each visible entity, 0..1."""
    best = np.zeros(len(view.rows), np.float32)
    for sentence in sentences[:MOST_SENTENCES]:
        terms = [term for term in dict.fromkeys(extract_terms(sentence)) if term not in FUNCTION_WORDS][:MOST_TERMS]
        if terms:
            names = rate_names(index.labels, view, terms)
            covered = view.words.compute_coverage(terms)
            np.maximum(best, 1 - (1 - NAME * names * names) * (1 - TEXT * covered), out=best)
    return best


def rate_names(labels: LexicalIndex, view: VisibleEntities, terms: Sequence[str]) -> Floats:
    """The share of each visible entity's name, or of its best alias, that a sentence mentions."""
    matched = np.zeros(len(labels.lengths), np.float32)
    for term in terms:
        known = labels.vocabulary.get(term)
        if known is not None:
            span = slice(labels.starts[known], labels.starts[known + 1])
            matched[labels.documents[span]] += labels.counts[span]
    hit = np.flatnonzero((matched > 0) & (view.places >= 0)) if len(matched) else np.empty(0, np.intp)
    shares = np.zeros(len(view.rows), np.float32)
    np.maximum.at(shares, view.places[hit], np.minimum(1, matched[hit] / labels.lengths[hit]))
    return shares


def list_terms(entity: Entity) -> list[str]:
    """The index terms of an entity: its names, its type and what its properties say."""
    said = [entity.name, *entity.aliases, entity.type]
    length = 0
    for name, value in entity.properties.items():
        text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
        said += [name, text[: INDEXED_CHARACTERS - length]]
        length += len(text)
        if length >= INDEXED_CHARACTERS:
            break
    return extract_terms("\n".join(said))
