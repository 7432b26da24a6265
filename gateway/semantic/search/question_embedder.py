"""The vectors of a request's question for whatever is searched besides resources: made once, whoever needs them."""

import asyncio
from collections.abc import Sequence

from gateway.semantic.index.vector_index import Floats
from gateway.semantic.model.embedder import Embedder
from gateway.semantic.search.admission import Admission
from gateway.semantic.search.query_cache import QueryCache


class QuestionEmbedder:
    """Embeds sentences in turn with all searches; those who ask for the same at the same moment share the work."""

    def __init__(self, cache: QueryCache, admission: Admission) -> None:
        self._cache, self._admission = cache, admission
        self._running: dict[tuple[str, tuple[str, ...]], asyncio.Task[Floats]] = {}

    async def embed(self, embedder: Embedder, workspace: str, sentences: Sequence[str], within: float) -> Floats:
        """One row per sentence; raises SearchTimeout, and what the embedder raises."""
        known = self._cache.find(embedder, workspace, sentences)
        if known is not None:
            return known
        key = (workspace, tuple(sentences))
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(self._embed(embedder, workspace, sentences, within))
            task.add_done_callback(lambda done: self._finish(key, done))
        return await asyncio.shield(task)  # others may wait for it still

    def _finish(self, key: tuple[str, tuple[str, ...]], done: asyncio.Task[Floats]) -> None:
        del self._running[key]
        if not done.cancelled():
            done.exception()  # whoever waits for it is told; if nobody does, it does not matter

    async def _embed(self, embedder: Embedder, workspace: str, sentences: Sequence[str], within: float) -> Floats:
        async with self._admission.admit(workspace, within) as left:
            return await self._cache.embed(embedder, workspace, sentences, left)
