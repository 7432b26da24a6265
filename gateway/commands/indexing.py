"""Runs the indexer of a gateway until every embedding is there, and shows the progress."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, TextIO

from gateway.errors import ServiceUnavailable

if TYPE_CHECKING:
    from gateway.app import Gateway
    from gateway.semantic.index.indexer import IndexProgress
    from gateway.semantic.service import SemanticService
    from gateway.settings import Settings

POLL_SECONDS = 0.1
SEARCH_MILLISECONDS = 60_000
BAR_WIDTH = 40
LINE_STEP = 0.1  # share of the work after which another line is written


@contextlib.asynccontextmanager
async def run_indexer(gateway: Gateway, show: Callable[[IndexProgress], None]) -> AsyncGenerator[SemanticService]:
    """Semantic search with a complete index; raises ServiceUnavailable with the reason if there cannot be one."""
    service = gateway.semantic
    if service is None:
        raise ServiceUnavailable("Semantic search is disabled: semantic.enabled is false.")
    if not service.enabled:
        yield service  # nothing is embedded before the first search
        return
    running, settling = asyncio.create_task(service.run()), asyncio.create_task(service.wait_until_indexed())
    try:
        while not settling.done():
            await asyncio.wait({running, settling}, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            check_progress(service, show)
            if running.done():
                running.result()
        yield service
    finally:
        running.cancel()
        settling.cancel()
        await asyncio.gather(running, settling, return_exceptions=True)


@contextlib.asynccontextmanager
async def try_run_indexer(gateway: Gateway, show: Callable[[IndexProgress], None]) -> AsyncGenerator[None]:
    """The same where search is optional: without it resources stay on demand, as in a real request."""
    async with contextlib.AsyncExitStack() as stack:
        with contextlib.suppress(ServiceUnavailable):
            await stack.enter_async_context(run_indexer(gateway, show))
        yield


def extend_search_deadline(settings: Settings) -> Settings:
    """The same settings, but a search may take its time on a slow machine."""
    semantic = settings.semantic.model_copy(update={"milliseconds": SEARCH_MILLISECONDS})
    return settings.model_copy(update={"semantic": semantic})


def check_progress(service: SemanticService, show: Callable[[IndexProgress], None]) -> None:
    """Show the progress; raise ServiceUnavailable where a gateway would retry later."""
    reason = service.error
    if service.indexer is not None:
        progress = service.indexer.progress
        show(progress)
        reason = reason or progress.error
    if reason is not None:
        raise ServiceUnavailable(f"Embeddings cannot be computed: {reason}")


class ProgressBar:
    """Progress as a bar on a terminal, as a few lines elsewhere, and not at all when there is nothing to do."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn = -1  # the count that is on the screen
        self._next = LINE_STEP

    def __call__(self, progress: IndexProgress) -> None:
        if not progress.missing or progress.embedded == self._drawn:
            return
        self._drawn = progress.embedded
        share = progress.embedded / progress.missing
        count = f"{progress.embedded} of {progress.missing} passages embedded"
        if self._stream.isatty():
            bar = "█" * int(share * BAR_WIDTH)
            self._stream.write(f"\r{bar:░<{BAR_WIDTH}} {count}" + ("\n" if progress.done else ""))
        elif share >= self._next:
            self._next = share + LINE_STEP if share + LINE_STEP < 1 else 1.0
            self._stream.write(f"{count}\n")
        self._stream.flush()
