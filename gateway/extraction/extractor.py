"""Extracts what callers and web servers send, in threads that the workspaces share fairly."""

from gateway.extraction.extract import extract_content
from gateway.extraction.formats import DocumentFormat
from gateway.fair_queue import FairQueue, FairThreads
from gateway.queue_bounds import QueueBounds
from gateway.settings import DocumentSettings

# Each extraction may take documents.memory_mb. A hostile document takes documents.seconds, twice in a workspace.
BOUNDS = QueueBounds(places=4, each=2, waiting=32)
RESTS = 3.0  # times what a document has used: even in the idle class, a process takes memory and caches from others


class Extractor:
    """One for a whole process: uploads and linked pages share its places."""

    def __init__(self, limits: DocumentSettings, bounds: QueueBounds = BOUNDS) -> None:
        self._limits = limits
        self.threads = FairThreads("extraction", bounds, rests=RESTS)

    async def extract(
        self, workspace: str, content: bytes, document_format: DocumentFormat, charset: str | None = None
    ) -> str:
        """The text of a document; raises ValueError with the reason why there is none, and WorkspaceBusy."""

        def work() -> str:
            idle = self.threads.queue.is_heavy(workspace)  # now, not when it was asked for
            return extract_content(content, document_format, self._limits, charset, idle=idle)

        return await self.threads.run(workspace, work)

    def charge_to(self, cores: FairQueue) -> None:
        """Charge the CPU time of documents to their workspaces, and let those of heavy ones wait."""
        self.threads.charge_to(cores)
