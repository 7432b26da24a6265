"""The texts that policies refer to: documents on disk and the copies of external links."""

from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from gateway.domain.retriever import SearchTarget
from gateway.domain.tool import ToolServerAddress
from gateway.extraction.extract import DocumentCache
from gateway.links.cache import LinkCache


class Materials(Protocol):
    """Gives the compiler the texts of documents and links."""

    def file(self, path: Path) -> str:
        """The text of a document; raises ValueError with a message for the policy's author."""
        ...

    def link(self, url: str) -> str | None:
        """The last good copy of a page; None if it has never been fetched."""
        ...


class ToolLists(Protocol):
    """Gives the compiler the tools of MCP servers."""

    def find_listing(self, address: ToolServerAddress) -> str | None:
        """The tools of a server as a text; None if it has never told them. Called from any thread."""
        ...

    def list_names(self, workspace: str) -> Collection[str]:
        """The servers of the configuration that a workspace may use; "": the policy files."""
        ...


class NoToolLists:
    """For whoever has no servers."""

    def find_listing(self, address: ToolServerAddress) -> str | None:
        return None

    def list_names(self, workspace: str) -> Collection[str]:
        return ()


NO_TOOL_LISTS = NoToolLists()


class RetrieverChecks(Protocol):
    """Tells the compiler whether what a retriever names is there."""

    def find_fault(self, workspace: str, target: SearchTarget) -> str | None:
        """What is wrong with a target; `workspace` is "" for policy files. Called from any thread."""
        ...


class NoRetrieverChecks:
    """For whoever only reads policies and asks no retriever."""

    def find_fault(self, workspace: str, target: SearchTarget) -> str | None:
        return None


NO_RETRIEVER_CHECKS = NoRetrieverChecks()


class PolicyMaterials:
    """Materials from the document cache and the link cache."""

    def __init__(self, documents: DocumentCache, links: LinkCache) -> None:
        self._documents = documents
        self._links = links

    def file(self, path: Path) -> str:
        return self._documents.extract(path)

    def link(self, url: str) -> str | None:
        copy = self._links.find_copy(url)
        return copy.text if copy is not None else None
