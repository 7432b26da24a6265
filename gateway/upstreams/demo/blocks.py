"""How the demo model reads the blocks that the gateway places (CONTRACT §3.1)."""

import re
from dataclasses import dataclass, field

MARKER = re.compile(r"--- (Context|Available Reference Materials|End) \[([0-9a-f]{8})\] ---")
ENTRY = re.compile(r"- \*\*(.+)\*\* \(ID: ([^\s()]+)\)")
HEADING = re.compile(r"\[(.+)\]")


@dataclass(frozen=True, slots=True)
class ContextLine:
    """One line of injected text and the resource that it stands under."""

    source: str
    text: str


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One line of the catalogue: something that can be fetched."""

    name: str
    id: str


@dataclass(slots=True)
class ParsedBlocks:
    """What a text holds: injected lines, the catalogue, and everything outside the blocks."""

    lines: list[ContextLine] = field(default_factory=list)
    catalogue: list[CatalogueEntry] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)


def read_blocks(text: str) -> ParsedBlocks:
    """Take a text apart in one pass; inside a block, a marker with another tag is plain text."""
    reading = ParsedBlocks()
    tag, section, source, after_gap = "", "", "", True
    for line in text.split("\n"):
        marker = MARKER.fullmatch(line.strip())
        if marker and (marker[2] == tag or (not tag and marker[1] != "End")):
            section, source, after_gap = marker[1], "", True
            tag = "" if section == "End" else marker[2]
        elif not tag:
            reading.rest.append(line)
        elif section == "Context":
            heading = HEADING.fullmatch(line) if after_gap else None
            source = heading[1] if heading else source
            after_gap = not line.strip()
            if not (heading or after_gap):
                reading.lines.append(ContextLine(source, line.strip()))
        elif entry := ENTRY.fullmatch(line):
            reading.catalogue.append(CatalogueEntry(entry[1], entry[2]))
    return reading
