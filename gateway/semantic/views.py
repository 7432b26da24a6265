"""Views of the newest index, made once per scope and index, off the loop; a newer index takes over when it is ready."""

import asyncio
from collections import OrderedDict

import numpy as np

from gateway.semantic.indexer import Indexer
from gateway.semantic.view import View, Words

VIEWS = 256  # scopes whose view is kept, …
NUMBERS = 64 * 2**20  # … and numbers (of 4 bytes) that they may take in all


class Views:
    """What callers see of the index that serves: the newest one whose words are known.

    To read the words of a large index takes seconds; nobody waits for that, the former index serves meanwhile.
    """

    def __init__(self, indexer: Indexer) -> None:
        self._indexer = indexer
        self._words: Words | None = None
        self._reading: asyncio.Task[None] | None = None
        self._kept: OrderedDict[tuple[str, ...], asyncio.Task[View]] = OrderedDict()

    @property
    def serving(self) -> Words | None:
        """The index that serves, with its words; None until the first one is ready."""
        self._begin()
        return self._words

    async def catch_up(self) -> None:
        """Return once the newest index serves."""
        while (reading := self._begin()) is not None:
            await asyncio.shield(reading)

    async def of(self, words: Words, resources: tuple[str, ...]) -> View:
        """What a scope sees; several callers share the making, which goes on when they no longer wait for it."""
        if self._words is not words:  # a newer index has taken over meanwhile, and the views kept are of that one
            return await asyncio.to_thread(View.build, words.indexed, resources, words)
        task = self._kept.get(resources)
        if task is None:
            task = asyncio.create_task(asyncio.to_thread(View.build, words.indexed, resources, words))
            self._kept[resources] = task
            self._forget(words)
        self._kept.move_to_end(resources)
        return await asyncio.shield(task)

    def _begin(self) -> asyncio.Task[None] | None:
        """Read the words of the newest index unless that is done; the task that does it."""
        newest = self._indexer.current
        if self._reading is None and newest is not None and (self._words is None or self._words.indexed is not newest):
            self._reading = asyncio.create_task(self._read())
        return self._reading

    async def _read(self) -> None:
        assert self._indexer.current is not None
        try:
            words = await asyncio.to_thread(Words.of, self._indexer.current, self._words)
            self._words = words
            self._kept.clear()
        finally:
            self._reading = None

    def _forget(self, words: Words) -> None:
        """A view may hold a vector per resource, and a square of their dimensions."""
        width = words.indexed.index.vectors_of(np.empty(0, np.intp)).shape[1]
        while len(self._kept) > 1 and (
            len(self._kept) > VIEWS or sum(len(resources) + width for resources in self._kept) * width > NUMBERS
        ):
            self._kept.popitem(last=False)
