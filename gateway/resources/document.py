"""document: the text of a file, or text with a media type written in the policy."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gateway.resources import formats
from gateway.resources.base import FileMaterial, ResourceType
from gateway.resources.markup import html_to_text

MediaType = Literal[
    "text/plain",
    "text/markdown",
    "text/html",
    "application/pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
]


class DocumentData(BaseModel):
    """Where the document's text comes from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str | None = Field(None, pattern=r"\S", description="The file, relative to the policy file.")
    content: str | None = Field(None, pattern=r"\S", description="The text itself, in place of a file.")
    mime_type: MediaType | None = Field(None, description="The format; it must agree with the path's suffix.")

    @model_validator(mode="after")
    def _one_source(self) -> "DocumentData":
        if (self.path is None) == (self.content is None):
            raise ValueError("give exactly one of path and content")
        if self.content is not None and self.mime_type is not None and not self.mime_type.startswith("text/"):
            raise ValueError(f"content is text; {self.mime_type} needs a path")
        if self.path is not None and self.mime_type is not None:
            promised = formats.by_name(self.path)
            if promised not in (None, formats.MEDIA_TYPES[self.mime_type]):
                raise ValueError(f"{self.path} is not {self.mime_type}")
        return self


class Document(ResourceType):
    """The text of a text, Markdown, HTML, PDF or DOCX file."""

    alias = "document"
    name = "Document"
    description = "The text of a text, Markdown, HTML, PDF or DOCX file"
    data = DocumentData

    def material(self, data: DocumentData) -> FileMaterial | None:
        return None if data.path is None else FileMaterial(data.path)

    def render(self, data: DocumentData, material: str | None) -> str:
        if data.content is None:
            return material or ""
        return html_to_text(data.content) if data.mime_type == "text/html" else data.content
