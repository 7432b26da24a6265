"""Gives documents (nodes and entities) vectors in the background, on a bounded share of a core and of the memory."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, ParamSpec

from gateway.errors import StoreError, WorkspaceBusy
from gateway.fair_queue import FairThreads
from gateway.queue_bounds import BACKGROUND
from gateway.semantic.index.document_numbers import DocumentNumbers
from gateway.semantic.index.document_queue import DocumentQueue, DocumentStage, DocumentWork
from gateway.semantic.model.embedder import SemanticError

if TYPE_CHECKING:
    from gateway.semantic.index.document_vectors import DocumentVectors, StoredVector
    from gateway.semantic.service import EmbeddedQuestion, SemanticService

MOST_PASSAGES = 3  # of a document; what stands further down is found by its words
SHARE = 0.5  # of one core, while there is something to embed
RETRY_SECONDS = 10.0  # after a failure of the store or of the embedder
MARKED_AT_ONCE = 1000
SPANS = {  # which passages of a document a stage is about
    DocumentStage.LOOK_UP: (0, MOST_PASSAGES),
    DocumentStage.HEAD: (0, 1),
    DocumentStage.REST: (1, MOST_PASSAGES),
}

ReadTexts = Callable[[Sequence[str]], Awaitable[Mapping[str, Sequence[str]]]]  # ids → the passages of each


class DocumentPassage(NamedTuple):
    """A piece of a document."""

    text: str
    last: bool  # whether nothing of the document comes after it


PassagesByKey = Mapping[str, Mapping[bytes, DocumentPassage]]  # by document
Parameters = ParamSpec("Parameters")

log = logging.getLogger(__name__)


class DocumentSource:
    """A set of documents that can be searched by their vectors: the nodes, or the entities, of one workspace."""

    def __init__(self, read: ReadTexts, wake: Callable[[], None], numbers: DocumentNumbers) -> None:
        self.read = read
        self.queue = DocumentQueue()
        self.numbers = numbers
        self.vectors: DocumentVectors | None = None  # None: nothing has a vector yet
        self._wake = wake
        self._changing = False
        self._dropped: set[str] = set()  # while vectors change

    @property
    def nbytes(self) -> int:
        return self.vectors.nbytes if self.vectors is not None else 0

    def require(self, ids: Collection[str], limit: int) -> None:
        """These documents are new or say something else; at most `limit` get vectors, whichever come first."""
        self.queue.limit = max(self.queue.limit, limit)
        self.queue.require(ids)
        self._drop(ids)
        self._wake()

    def remove(self, ids: Collection[str]) -> None:
        """These documents are gone."""
        self.queue.remove(ids)
        self._drop(ids)

    def prefer(self, ids: Sequence[str]) -> None:
        """Somebody may want to find these: their vectors come first."""
        if len(self.queue):
            self.queue.prefer(ids)

    async def add(self, threads: FairThreads, found: Sequence[StoredVector]) -> None:
        """Let searches use more vectors."""
        await self._replace(threads, _append, self.vectors, found, self.numbers)

    async def shrink(self, threads: FairThreads, max_bytes: int) -> None:
        """Give up vectors beyond so many bytes, those that came last."""
        vectors = self.vectors
        if vectors is not None and vectors.nbytes > max_bytes:
            await self._replace(threads, _keep, vectors, int(len(vectors) * max_bytes / vectors.nbytes))

    async def _replace(
        self,
        threads: FairThreads,
        change: Callable[Parameters, DocumentVectors],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> None:
        """Change the vectors in a thread, one change at a time; what is dropped meanwhile is dropped afterwards too."""
        self._changing = True
        try:
            changed = await threads.run(BACKGROUND, change, *args, **kwargs)
        finally:
            self._changing = False
            dropped, self._dropped = self._dropped, set()
        self.vectors = changed.remove(dropped) if dropped else changed

    def _drop(self, ids: Collection[str]) -> None:
        if self._changing:
            self._dropped.update(ids)
        if self.vectors is not None and ids:
            self.vectors = self.vectors.remove(ids)


class DocumentIndexer:
    """Embeds what sources lack, one after the other in turn, until each has its vectors or the memory is full."""

    def __init__(
        self, semantic: SemanticService, threads: FairThreads, max_bytes: int, *, share: float = SHARE
    ) -> None:
        self._semantic, self._threads, self._max_bytes, self._share = semantic, threads, max_bytes, share
        self._sources: list[DocumentSource] = []  # whose turn it is first
        self._needed = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.embedded = 0  # passages, since the start
        semantic.watch_sweep(self.mark_used)

    def open(self, read: ReadTexts, numbers: DocumentNumbers) -> DocumentSource:
        """A source; it is kept until it is closed."""
        source = DocumentSource(read, self._wake, numbers)
        self._sources.append(source)
        return source

    def close(self, source: DocumentSource) -> None:
        if source in self._sources:
            self._sources.remove(source)

    @property
    def failure(self) -> str | None:
        """Why there can be no vectors now, if something failed."""
        return "unavailable" if self._semantic.error else None

    async def embed_question(self, workspace: str, sentences: Sequence[str], within: float) -> EmbeddedQuestion:
        """The vectors of a question; never raises."""
        return await self._semantic.embed_question(workspace, sentences, within)

    async def wait_until_indexed(self) -> None:
        """Return once everything has its vectors that can have some."""
        await self._idle.wait()

    async def run(self) -> None:
        """Embed whatever is needed, until cancelled."""
        while True:
            await self._needed.wait()
            await self._semantic.wait_until_built()
            if not await self._advance():
                self._needed.clear()
                self._idle.set()

    async def mark_used(self) -> None:
        """Mark the stored vectors as used: they are read once and may serve for months."""
        for vectors in [source.vectors for source in self._sources if source.vectors is not None]:
            for start in range(0, len(vectors), MARKED_AT_ONCE):
                rows = range(start, min(start + MARKED_AT_ONCE, len(vectors)))
                await self._semantic.read_vectors([vectors.get_key(row) for row in rows])

    def _wake(self) -> None:
        self._semantic.enable()
        self._idle.clear()
        self._needed.set()

    async def _advance(self) -> bool:
        """One step for the source whose turn it is; False if no source needs one."""
        for source in list(self._sources):
            work = source.queue.take()
            if work is None:
                continue
            self._sources.append(self._sources.pop(self._sources.index(source)))
            try:
                await self._do(source, work)
            except (StoreError, WorkspaceBusy, SemanticError) as error:
                log.warning("vectors of content are made later: %s", error)
                source.queue.put_back(work)
                await asyncio.sleep(RETRY_SECONDS)
            except BaseException:
                source.queue.put_back(work)
                raise
            return True
        return False

    async def _do(self, source: DocumentSource, work: DocumentWork) -> None:
        passages = await self._split(source, work)
        stored = await self._semantic.read_vectors([key for some in passages.values() for key in some])
        missing = {id: [key for key in some if key not in stored] for id, some in passages.items()}
        began = time.monotonic()
        if work.stage is not DocumentStage.LOOK_UP:
            stored |= await self._embed({key: passages[id][key] for id, keys in missing.items() for key in keys})
        spent = time.monotonic() - began
        found = await self._threads.run(BACKGROUND, _decode_vectors, passages, stored)
        known = source.queue.finish(work.ids)  # from here on, whoever changes a document has its vectors dropped
        if work.stage is DocumentStage.LOOK_UP:
            self._want_missing(source.queue, {id: some for id, some in passages.items() if id in known}, missing)
        if found := [one for one in found if one.id in known]:
            await source.add(self._threads, found)
            await self._make_room(source)
        await asyncio.sleep(spent * (1 / self._share - 1))

    @staticmethod
    def _want_missing(queue: DocumentQueue, passages: PassagesByKey, missing: Mapping[str, Sequence[bytes]]) -> None:
        """What is not stored has to be embedded."""
        heads = {id: next(iter(some)) for id, some in passages.items() if some}
        queue.want(DocumentStage.HEAD, [id for id, head in heads.items() if head in missing[id]])
        queue.want(DocumentStage.REST, [id for id, head in heads.items() if any(key != head for key in missing[id])])

    async def _split(self, source: DocumentSource, work: DocumentWork) -> PassagesByKey:
        """By document and key: the passages that the work is about."""
        texts = await source.read(work.ids)
        embedder = self._semantic.embedder
        assert embedder is not None
        return await self._threads.run(BACKGROUND, _make_keys, texts, embedder.id, work.stage)

    async def _embed(self, texts: Mapping[bytes, DocumentPassage]) -> dict[bytes, bytes]:
        if not texts:
            return {}
        embedder = self._semantic.embedder
        assert embedder is not None
        rows = (await embedder.embed([one.text for one in texts.values()])).astype("<f2")
        made = {key: row.tobytes() for key, row in zip(texts, rows, strict=True)}
        self.embedded += len(made)
        await self._semantic.store_vectors(made)
        return made

    async def _make_room(self, source: DocumentSource) -> None:
        """When the memory is full: whoever has more than a fair share of it gets no more, or gives it back."""
        if sum(one.nbytes for one in self._sources) < self._max_bytes:
            return
        share = self._max_bytes // max(1, sum(one.vectors is not None for one in self._sources))
        largest = source if source.nbytes >= share else max(self._sources, key=lambda one: one.nbytes)
        largest.queue.stop()
        if largest is not source:
            await largest.shrink(self._threads, share)


def _make_keys(texts: Mapping[str, Sequence[str]], model: str, stage: DocumentStage) -> PassagesByKey:
    from gateway.semantic.index.passages import Passage

    first, last = SPANS[stage]
    split: dict[str, dict[bytes, DocumentPassage]] = {}
    for id, some in texts.items():
        whole = [DocumentPassage(text, at == len(some)) for at, text in enumerate(some, 1)]
        split[id] = {Passage(id, one.text).key(model): one for one in whole[first:last]}
    return split


def _decode_vectors(passages: PassagesByKey, stored: Mapping[bytes, bytes]) -> list[StoredVector]:
    import numpy as np

    from gateway.semantic.index.document_vectors import StoredVector

    known = ((id, key) for id, some in passages.items() for key in some if key in stored)
    return [StoredVector(id, key, np.frombuffer(stored[key], "<f2"), passages[id][key].last) for id, key in known]


def _append(
    vectors: DocumentVectors | None, found: Sequence[StoredVector], numbers: DocumentNumbers
) -> DocumentVectors:
    from gateway.semantic.index.document_vectors import DocumentVectors

    if vectors is None:
        vectors = DocumentVectors.build(len(found[0].vector), numbers)
    elif vectors.is_sparse:
        vectors = vectors.keep(len(vectors))
    return vectors.add(found)


def _keep(vectors: DocumentVectors, count: int) -> DocumentVectors:
    return vectors.keep(count)
