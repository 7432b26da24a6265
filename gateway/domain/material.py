"""What a resource is made from besides its own data: a file, a web page, an upload, a server's tools."""

from dataclasses import dataclass

from gateway.domain.tool import ToolServerAddress


@dataclass(frozen=True, slots=True)
class FileMaterial:
    """Text that lies in a file and is extracted once per content."""

    path: str  # as written in the policy, relative to the policy file


@dataclass(frozen=True, slots=True)
class LinkMaterial:
    """Text that lies behind a URL and is fetched in the background."""

    url: str
    interval: float  # seconds between refreshes


@dataclass(frozen=True, slots=True)
class ToolListMaterial:
    """The tools of an MCP server, which it is asked for in the background."""

    address: ToolServerAddress


@dataclass(frozen=True, slots=True)
class BlobMaterial:
    """Text of a document that was uploaded, known by the hash of its bytes."""

    sha256: str
