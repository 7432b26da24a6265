"""The search by meaning: questions in, picks out, in time or not at all."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gateway.domain.agent import SelectionSettings
from gateway.domain.pick import Found, Pick, Question
from gateway.semantic.admission import Admission
from gateway.semantic.base import EmbedderUnavailable, Late
from gateway.semantic.calibration import Calibration
from gateway.semantic.choice import PRESETS, Chosen, Rule, choose
from gateway.semantic.expansion import expand
from gateway.semantic.indexer import Indexer
from gateway.semantic.query_cache import QueryCache
from gateway.semantic.scoring import Floats, Ranking, rank
from gateway.semantic.sentences import searched
from gateway.semantic.view import View, Words
from gateway.semantic.views import Views
from gateway.settings import Semantic

LISTED = 50  # resources that a query of `list_context_resources` finds at the most
RELEVANT = 0.002  # probability of what a tool lists: its reader judges for itself, and noise is ten times below
BROKEN = (EmbedderUnavailable, ValueError)  # the latter for vectors of different widths

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """One search: the question's sentences and the view that answers them."""

    sentences: list[str]
    vectors: Floats
    view: View
    ranking: Ranking


class SemanticEngine:
    """Answers from whatever index there is; while there is none, resources stay on demand."""

    def __init__(self, indexer: Indexer, settings: Semantic, calibration: Calibration) -> None:
        self._indexer = indexer
        self._settings = settings
        self._calibration = calibration
        self._views = Views(indexer)
        self._admission = Admission()
        self._complained = ""
        self.cache = QueryCache()

    @property
    def generation(self) -> int | None:
        """Of the policies that can be searched now."""
        words = self._views.serving
        return words.indexed.generation if words is not None else None

    async def catch_up(self) -> None:
        """Return once the newest index serves."""
        await self._views.catch_up()

    async def find(
        self, workspace: str, question: Question, resources: Sequence[str], settings: SelectionSettings
    ) -> Found:
        words = self._views.serving
        if words is None:
            stuck = self._indexer.current is None and self._indexer.progress.error is not None
            return Found(reason="unavailable" if stuck else None, pending=frozenset(resources))
        pending = self._pending(words, resources)
        try:
            async with self._admission.place(self._within):
                sentences, top_k = searched(question.text, question.earlier), settings.top_k
                asked = await self._ask(workspace, sentences, resources, words, top_k)
                if asked is None:
                    return Found(pending=pending)
                return replace(await asyncio.to_thread(self._pick, asked, self._rule(settings)), pending=pending)
        except Late:
            return Found(reason="late", pending=pending)
        except BROKEN as error:
            self._complain(str(error))
            return Found(reason="unavailable", pending=pending)

    async def rank(self, workspace: str, query: str, resources: Sequence[str]) -> list[str] | None:
        asked = await self._try(workspace, query, resources)
        if asked is None:
            return None
        pairs = zip(asked.ranking.resources, asked.ranking.probabilities, strict=True)
        return [asked.view.resources[column] for column, chance in pairs if chance >= RELEVANT][:LISTED]

    async def passages(self, workspace: str, query: str, resource: str) -> list[str]:
        asked = await self._try(workspace, query, [resource])
        if asked is None:
            return []
        return await asyncio.to_thread(asked.view.passages, asked.sentences, asked.vectors)

    @property
    def _within(self) -> float:
        return self._settings.milliseconds / 1000

    def _pending(self, words: Words, resources: Sequence[str]) -> frozenset[str]:
        """What has not been embedded yet; it goes first from now on."""
        indexed = words.indexed
        pending = frozenset(name for name in resources if name in indexed.missing or name not in indexed.numbers)
        if pending:
            self._indexer.prefer(pending)
        return pending

    async def _try(self, workspace: str, query: str, resources: Sequence[str]) -> Asked | None:
        """A search on behalf of a tool; None unless all that it should look at can be found."""
        words = self._views.serving
        if words is None or self._pending(words, resources):
            return None
        try:
            async with self._admission.place(self._within):
                return await self._ask(workspace, searched(query), resources, words)
        except (Late, *BROKEN):
            return None

    async def _ask(
        self, workspace: str, sentences: list[str], resources: Sequence[str], words: Words, top_k: int | None = None
    ) -> Asked | None:
        began = time.monotonic()
        view = await self._views.of(words, tuple(resources))
        if not sentences or not len(view.rows):
            return None
        within = max(self._within - (time.monotonic() - began), 0.001)
        vectors = await self.cache.embed(words.indexed.embedder, workspace, sentences, within)
        closely = top_k or self._settings.top_k
        ranking = await asyncio.to_thread(lambda: rank(view.evidence(sentences, vectors), self._calibration, closely))
        return Asked(sentences, vectors, view, ranking)

    def _rule(self, settings: SelectionSettings) -> Rule:
        """The preset, with what request, agent and configuration say over it."""
        own = self._settings
        configured = SelectionSettings(own.preset, own.include_score, own.min_score, top_n=own.top_n)
        # Whoever names a preset means its thresholds, not those that were configured for another one.
        wanted = settings.over(SelectionSettings() if settings.preset else configured)
        rule = PRESETS[wanted.preset or own.preset]
        return Rule(
            include_score=rule.include_score if wanted.include_score is None else wanted.include_score,
            min_score=rule.min_score if wanted.min_score is None else wanted.min_score,
            top_n=rule.top_n if wanted.top_n is None else wanted.top_n,
            fill=rule.fill,
        )

    def _pick(self, asked: Asked, rule: Rule) -> Found:
        view = asked.view
        chosen = choose(asked.ranking, rule)
        picks = [Pick(view.resources[one.resource], one.probability, "semantic", why(one, asked)) for one in chosen]
        expansion = self._settings.expansion
        if expansion.depth and picks:
            picks += expand(view, [one.resource for one in chosen], expansion)
        taken = {pick.resource for pick in picks}
        pairs = zip(asked.ranking.resources, asked.ranking.probabilities, strict=True)
        others = ((view.resources[column], round(float(chance), 4)) for column, chance in pairs)
        return Found(tuple(picks), scores=tuple(pair for pair in others if pair[0] not in taken))

    def _complain(self, reason: str) -> None:
        """Say once why semantic resources stay on demand."""
        if reason != self._complained:
            self._complained = reason
            log.warning("semantic resources stay on demand: %s", reason)


def why(one: Chosen, asked: Asked) -> str:
    sentence = asked.sentences[one.sentence]
    shown = sentence if len(sentence) <= 80 else sentence[:79] + "…"
    return f"relevant with probability {one.probability:.2f} to “{shown}”"
