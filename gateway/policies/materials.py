"""The texts that policies refer to: documents on disk, pages behind links."""

from pathlib import Path

from gateway.extraction.extract import DocumentCache
from gateway.links.cache import LinkCache


class PolicyMaterials:
    """Gives the compiler its texts."""

    def __init__(self, documents: DocumentCache, links: LinkCache) -> None:
        self._documents = documents
        self._links = links

    def file(self, path: Path) -> str:
        return self._documents.text(path)

    def link(self, url: str) -> str | None:
        copy = self._links.copy(url)
        return copy.text if copy is not None else None
