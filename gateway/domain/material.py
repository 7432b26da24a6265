"""What a resource is made from besides its own data: a file, a web page, an upload, a server's tools."""

import msgspec

from gateway.domain.tool import ToolServerAddress


class FileMaterial(msgspec.Struct, frozen=True):
    """Text that lies in a file and is extracted once per content."""

    path: str  # as written in the policy, relative to the policy file


class LinkMaterial(msgspec.Struct, frozen=True):
    """Text that lies behind a URL and is fetched in the background."""

    url: str
    interval: float  # seconds between refreshes


class ToolListMaterial(msgspec.Struct, frozen=True):
    """The tools of an MCP server, which it is asked for in the background."""

    address: ToolServerAddress


class BlobMaterial(msgspec.Struct, frozen=True):
    """Text of a document that was uploaded, known by the hash of its bytes."""

    sha256: str
