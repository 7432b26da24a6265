"""document: the text of a file, or text with a media type written in the policy."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gateway.resources.base import FileMaterial, ResourceType

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
    mime_type: MediaType | None = Field(None, description="The format, where the file's name does not tell.")

    @model_validator(mode="after")
    def _one_source(self) -> "DocumentData":
        if (self.path is None) == (self.content is None):
            raise ValueError("give exactly one of path and content")
        if self.content is not None and self.mime_type is not None and not self.mime_type.startswith("text/"):
            raise ValueError(f"content is text; {self.mime_type} needs a path")
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
        return data.content if data.content is not None else material or ""
