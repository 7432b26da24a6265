"""The texts that policies refer to: documents on disk and the copies of external links."""

from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from gateway.domain.tool import ToolServerAddress
from gateway.extraction.extract import DocumentCache
from gateway.links.cache import LinkCache
from gateway.tools.servers import ToolServers


class Materials(Protocol):
    """Gives the compiler the texts of documents and links."""

    def file(self, path: Path) -> str:
        """The text of a document; raises ValueError with a message for the policy's author."""
        ...

    def link(self, url: str) -> str | None:
        """The last good copy of a page; None if it has never been fetched."""
        ...

    def tools(self, address: ToolServerAddress) -> str | None:
        """The tools of a server as a text; None if it has never told them."""
        ...

    def list_servers(self, workspace: str) -> Collection[str]:
        """The servers of the configuration that a workspace may use; "": the policy files."""
        ...


class PolicyMaterials:
    """Materials from the document cache, the link cache and MCP servers."""

    def __init__(self, documents: DocumentCache, links: LinkCache, servers: ToolServers | None = None) -> None:
        self._documents = documents
        self._links = links
        self._servers = servers or ToolServers()

    def file(self, path: Path) -> str:
        return self._documents.extract(path)

    def link(self, url: str) -> str | None:
        copy = self._links.find_copy(url)
        return copy.text if copy is not None else None

    def tools(self, address: ToolServerAddress) -> str | None:
        return self._servers.find_listing(address)

    def list_servers(self, workspace: str) -> Collection[str]:
        return [name for name in self._servers.settings if self._servers.may_use(workspace, name)]
