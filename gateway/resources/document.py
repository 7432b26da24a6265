"""document: the text of a file, of an upload, or text with a media type written in the policy."""

import hashlib
import threading
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gateway.domain.lru import LruCache
from gateway.domain.material import BlobMaterial, FileMaterial
from gateway.domain.resource import Mode
from gateway.extraction import formats
from gateway.extraction.extract import ExtractionTimeout, extract_html
from gateway.resources.base import ResourceType
from gateway.settings import DocumentSettings

# Characters of inline HTML: parsing more than that would hold the interpreter for longer than 20 ms; up to so many are
# parsed here nevertheless if another process, which has a low priority, does not get to it on a busy machine.
LARGE, PARSED_HERE = 16_000, 64_000
CACHED_TEXTS, CACHED_CHARACTERS = 1024, 16 * 1024 * 1024

MediaType = Literal[
    "text/plain",
    "text/markdown",
    "text/html",
    "application/pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
]


class DocumentData(BaseModel):
    """Where the document's text comes from."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    # Fields that only say where the text comes from are not dumped: gateways with the same text have the same hash.
    path: str | None = Field(
        None, pattern=r"\S", exclude=True, description="The file, relative to the policy file; files only."
    )
    content: str | None = Field(None, pattern=r"\S", description="The text itself, in place of a file.")
    sha256: str | None = Field(
        None, pattern=r"^[0-9a-f]{64}$", exclude=True, description="The document that was uploaded."
    )
    mime_type: MediaType | None = Field(
        None, exclude=True, description="The format; it must agree with the path's suffix."
    )

    @model_validator(mode="after")
    def _check_source(self) -> "DocumentData":
        if sum(source is not None for source in (self.path, self.content, self.sha256)) != 1:
            raise ValueError("give exactly one of path, content and sha256")
        if self.sha256 is not None and self.mime_type is not None:
            raise ValueError("an uploaded document has a format already; leave mime_type out")
        if self.content is not None and self.mime_type is not None and not self.mime_type.startswith("text/"):
            raise ValueError(f"content is text; {self.mime_type} needs a path")
        if self.path is not None and self.mime_type is not None:
            expected = formats.find_format_of_name(self.path)
            if expected not in (None, formats.MEDIA_TYPES[self.mime_type]):
                raise ValueError(f"{self.path} is not {self.mime_type}")
        return self


class DocumentType(ResourceType):
    """The text of a text, Markdown, HTML, PDF or DOCX file."""

    alias = "document"
    name = "Document"
    description = "The text of a text, Markdown, HTML, PDF or DOCX file"
    data = DocumentData
    icon = "file-text"
    recommended_mode = Mode.ON_DEMAND

    def __init__(self) -> None:
        # Of inline HTML by its hash: a change is compiled once to check it and once to use it.
        self._texts: LruCache[bytes, str] = LruCache(entries=CACHED_TEXTS, weight=CACHED_CHARACTERS)
        self._lock = threading.Lock()

    def material(self, data: DocumentData) -> FileMaterial | BlobMaterial | None:
        if data.sha256 is not None:
            return BlobMaterial(data.sha256)
        return None if data.path is None else FileMaterial(data.path)

    def render(self, data: DocumentData, material: str | None) -> str:
        if data.content is None:
            return material or ""
        return self._extract_html(data.content) if data.mime_type == "text/html" else data.content

    def _extract_html(self, markup: str) -> str:
        """The text of inline HTML, which is parsed in linear time and once; called from any thread."""
        key = hashlib.sha256(markup.encode("utf-8", "surrogatepass")).digest()
        with self._lock:
            text = self._texts.get(key)
        if text is None:
            text = parse_html(markup) if len(markup) <= LARGE else extract_large_html(markup)
            with self._lock:
                self._texts.put(key, text, len(text) + 1)
        return text


def extract_large_html(markup: str) -> str:
    """In another process: while this one parsed it, everybody's requests would wait for the interpreter."""
    try:
        return extract_html(markup.encode("utf-8", "replace"), DocumentSettings(), "utf-8")
    except ExtractionTimeout:
        if len(markup) > PARSED_HERE:
            raise
        return parse_html(markup)


def parse_html(markup: str) -> str:
    from gateway.extraction.html import html_to_text  # of gateway.late_modules

    return html_to_text(markup)
