"""What the demo model reads: a chat request, validated as a provider would, and the blocks in it (CONTRACT §3.1)."""

import re
from typing import Annotated, Any, Literal

import msgspec

CATALOGUE, END = "Available Reference Materials", "End"  # every other section holds texts
MARKER = re.compile(r"--- ([A-Z][A-Za-z ]{1,40}) \[([0-9a-f]{8})\] ---")
ENTRY = re.compile(r"- \*\*(.+)\*\* \(ID: ([^\s()]+)\)")
HEADING = re.compile(r"\[([^\[\]]+)\](?: \[[^\[\]]+\])?|\[(.+)\]")  # a node's type follows its title
EMPTY = "_No relevant content found._"


class DemoPart(msgspec.Struct, frozen=True):
    """One part of a message's content; only text is read."""

    type: str
    text: str | None = None


class DemoFunction(msgspec.Struct, frozen=True):
    """The name of a tool, as offered or as called."""

    name: str


class DemoHistoryCall(msgspec.Struct, frozen=True):
    """A tool call in the history."""

    id: str
    function: DemoFunction | None = None


class DemoMessage(msgspec.Struct, frozen=True):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[DemoPart] | None = None
    tool_calls: list[DemoHistoryCall] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text or "" for part in self.content)
        return self.content or ""


class DemoTool(msgspec.Struct, frozen=True):
    """A tool that is offered; only functions are ever called."""

    type: str
    function: DemoFunction | None = None


class DemoSchema(msgspec.Struct, frozen=True):
    """The schema that a JSON answer must fit."""

    schema: dict[str, Any] | None = None


class DemoFormat(msgspec.Struct, frozen=True):
    """The format that the answer must have."""

    type: str
    json_schema: DemoSchema | None = None


class DemoStreamOptions(msgspec.Struct, frozen=True):
    """What a stream carries besides the answer."""

    include_usage: bool | None = None


class DemoRequest(msgspec.Struct, frozen=True):
    """The fields that the demo model looks at; all others are ignored."""

    model: str
    messages: Annotated[list[DemoMessage], msgspec.Meta(min_length=1)]
    stream: bool | None = None
    stream_options: DemoStreamOptions | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=128)] | None = None
    tools: list[DemoTool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: DemoFormat | None = None


class ContextLine(msgspec.Struct, frozen=True):
    """One line of injected text and the name of the resource that it belongs to."""

    source: str
    text: str


class CatalogueEntry(msgspec.Struct, frozen=True):
    """One line of the catalogue: something that can be fetched."""

    name: str
    id: str


class ParsedBlocks(msgspec.Struct):
    """What a text holds: injected lines, the catalogue, and everything outside the blocks."""

    lines: list[ContextLine] = msgspec.field(default_factory=list)
    catalogue: list[CatalogueEntry] = msgspec.field(default_factory=list)
    rest: list[str] = msgspec.field(default_factory=list)


def read_blocks(text: str) -> ParsedBlocks:
    """Split a text into its blocks in one pass; inside a block, a marker with another tag is plain text."""
    blocks = ParsedBlocks()
    tag, section, source, after_gap = "", "", "", True
    for line in text.split("\n"):
        marker = MARKER.fullmatch(line.strip())
        if marker and (marker[2] == tag or (not tag and marker[1] != END)):
            section, source, after_gap = marker[1], "", True
            tag = "" if section == END else marker[2]
        elif not tag:
            blocks.rest.append(line)
        elif section != CATALOGUE:
            heading = HEADING.fullmatch(line) if after_gap else None
            source = heading[1] or heading[2] if heading else source
            after_gap = not line.strip()
            if not (heading or after_gap or line == EMPTY):
                blocks.lines.append(ContextLine(source, line.strip()))
        elif entry := ENTRY.fullmatch(line):
            blocks.catalogue.append(CatalogueEntry(entry[1], entry[2]))
    return blocks
