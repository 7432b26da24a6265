"""How near texts are to a query that are in no index: the tools that a request brings itself."""

import asyncio
from collections.abc import Sequence

from gateway.domain.search import Query
from gateway.errors import WorkspaceBusy
from gateway.semantic.model.embedder import Embedder, EmbedderUnavailable, SearchTimeout
from gateway.semantic.search.admission import Admission
from gateway.semantic.search.query_cache import QueryCache

FAILURES = (EmbedderUnavailable, ValueError, WorkspaceBusy)
BATCH = 8  # texts that are embedded at a time where nobody waits
PATIENCE = 30.0  # seconds for each of those batches


class TextScores:
    """Scores texts by their vectors, which are cached; those that were not ready in time are made for the next."""

    def __init__(self, cache: QueryCache, admission: Admission) -> None:
        self._cache, self._admission = cache, admission
        self._warming: dict[str, asyncio.Task[None]] = {}  # by workspace

    async def score(
        self, embedder: Embedder, workspace: str, query: Query, texts: Sequence[str], within: float
    ) -> list[float] | None:
        """The best cosine of each text with a sentence; None if they could not be compared in time."""
        if not query.sentences or not texts:
            return None
        try:
            async with self._admission.admit(workspace, within) as left:
                vectors = await self._cache.embed(embedder, workspace, [*query.sentences, *texts], left)
        except SearchTimeout:
            self._warm(embedder, workspace, texts)
            return None
        except FAILURES:
            return None
        count = len(query.sentences)
        cosines = vectors[count:] @ vectors[:count].T
        return [float(best) for best in cosines.max(axis=1)]

    def _warm(self, embedder: Embedder, workspace: str, texts: Sequence[str]) -> None:
        """Make the vectors of texts for later requests; one request's at a time, for each workspace."""
        if workspace in self._warming:
            return
        task = asyncio.create_task(self._embed_all(embedder, workspace, list(texts)))
        self._warming[workspace] = task
        task.add_done_callback(lambda _: self._warming.pop(workspace, None))

    async def _embed_all(self, embedder: Embedder, workspace: str, texts: list[str]) -> None:
        for begin in range(0, len(texts), BATCH):
            try:
                await self._cache.embed(embedder, workspace, texts[begin : begin + BATCH], PATIENCE)
            except (SearchTimeout, *FAILURES):
                return
