"""`gateway index`: embeds what has no vector yet and shows how far it is."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from gateway.app import Gateway
from gateway.errors import ServiceUnavailable
from gateway.semantic.service import SemanticService
from gateway.settings import Settings

if TYPE_CHECKING:
    from gateway.semantic.index.indexer import Progress

LOOK_SECONDS = 0.1
PATIENCE_MS = 60_000
WIDTH = 40  # of the bar
STEP = 0.1  # share of the work after which a plain line is written


@dataclass(frozen=True, slots=True)
class Counts:
    """What an index holds, in passages."""

    passages: int = 0
    embedded: int = 0  # now
    kept: bool = True  # vectors outlive the command

    def as_text(self) -> str:
        done = f"{self.passages} passages: {self.embedded} embedded now, {self.passages - self.embedded} at hand"
        return done if self.kept else f"{done}; the store keeps nothing, so the next start embeds them again"


async def build_index(settings: Settings, stream: TextIO, everything: bool = False) -> Counts:
    """Embed whatever is missing; raises Unavailable when that is not possible.

    Where nothing is semantic a gateway embeds on-demand resources once a model searches them; `everything` does so now.
    """
    gateway = await Gateway.open(settings)
    try:
        if everything and gateway.semantic is not None:
            gateway.semantic.begin()
        async with indexed(gateway, Shown(stream)) as service:
            if service.indexer is None:
                return Counts()
            progress = service.indexer.progress
            return Counts(progress.total, progress.embedded, settings.store != "memory:")
    finally:
        await gateway.close()


@contextlib.asynccontextmanager
async def indexed(gateway: Gateway, show: Callable[["Progress"], None]) -> AsyncGenerator[SemanticService]:
    """A gateway's search by meaning, settled; raises Unavailable with the reason when it cannot be."""
    service = gateway.semantic
    if service is None:
        raise ServiceUnavailable("The search by meaning is switched off: semantic.enabled is false.")
    if not service.wanted:
        yield service  # nothing is embedded before somebody searches
        return
    running, settling = asyncio.create_task(service.run()), asyncio.create_task(service.settled())
    try:
        while not settling.done():
            await asyncio.wait({running, settling}, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            follow(service, show)
            if running.done():
                running.result()
        yield service
    finally:
        running.cancel()
        settling.cancel()
        await asyncio.gather(running, settling, return_exceptions=True)


@contextlib.asynccontextmanager
async def searchable(gateway: Gateway, show: Callable[["Progress"], None]) -> AsyncGenerator[None]:
    """The same where a search is not needed: what it cannot find stays on demand, as in a real request."""
    async with contextlib.AsyncExitStack() as stack:
        with contextlib.suppress(ServiceUnavailable):
            await stack.enter_async_context(indexed(gateway, show))
        yield


def patient(settings: Settings) -> Settings:
    """The same settings for a look at what is found, however slow this machine is just now."""
    semantic = settings.semantic.model_copy(update={"milliseconds": PATIENCE_MS})
    return settings.model_copy(update={"semantic": semantic})


def follow(service: SemanticService, show: Callable[["Progress"], None]) -> None:
    """Show how far the index is; raise Unavailable where a gateway would wait and try again."""
    reason = service.error
    if service.indexer is not None:
        progress = service.indexer.progress
        show(progress)
        reason = reason or progress.error
    if reason is not None:
        raise ServiceUnavailable(f"Nothing can be embedded: {reason}")


class Shown:
    """Progress as a bar on a terminal, as a few lines elsewhere, and not at all when there is nothing to do."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn = -1  # the count that is on the screen
        self._next = STEP

    def __call__(self, progress: "Progress") -> None:
        if not progress.missing or progress.embedded == self._drawn:
            return
        self._drawn = progress.embedded
        share = progress.embedded / progress.missing
        count = f"{progress.embedded} of {progress.missing} passages embedded"
        if self._stream.isatty():
            bar = "█" * int(share * WIDTH)
            self._stream.write(f"\r{bar:░<{WIDTH}} {count}" + ("\n" if progress.done else ""))
        elif share >= self._next:
            self._next = share + STEP if share + STEP < 1 else 1.0
            self._stream.write(f"{count}\n")
        self._stream.flush()
