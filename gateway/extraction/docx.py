"""The text of a DOCX file: paragraphs, headings and tables, read without building a tree."""

import zipfile
from typing import IO
from xml.parsers import expat

BODY_ENTRY = "word/document.xml"
MAX_ENTRIES = 10_000
MAX_XML_BYTES = 64 * 1024 * 1024
CHUNK_BYTES = 64 * 1024

# ISO 29500 transitional and strict.
WORD_NAMESPACES = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
FALLBACK = "http://schemas.openxmlformats.org/markup-compatibility/2006 Fallback"  # repeats what comes before it
BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


class UnsafeDocument(ValueError):
    """A file that is not read, with a sentence that says why."""


def docx_to_text(source: IO[bytes]) -> str:
    """Blocks separated by blank lines; a table is a line per row."""
    with zipfile.ZipFile(source) as archive:
        if len(archive.infolist()) > MAX_ENTRIES or BODY_ENTRY not in archive.namelist():
            raise UnsafeDocument("it is not a Word document")
        entry = archive.getinfo(BODY_ENTRY)
        if entry.flag_bits & 1:
            raise UnsafeDocument("it is encrypted")
        with archive.open(entry) as body:
            return _BodyParser().parse(body)


class _BodyParser:
    """Handlers for one pass over document.xml."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._rows: list[list[str]] = []  # the rows being read, outermost first
        self._cells: list[list[str]] = []
        self._paragraph: list[str] = []
        self._heading = ""
        self._in_text = False
        self._skip_depth = 0

    def parse(self, body: IO[bytes]) -> str:
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartDoctypeDeclHandler = _refuse_doctype
        parser.StartElementHandler = self._start_element
        parser.EndElementHandler = self._end_element
        parser.CharacterDataHandler = self._add_text
        size = 0
        # Sizes in the archive's directory may be false, so what really comes out is counted.
        while chunk := body.read(CHUNK_BYTES):
            size += len(chunk)
            if size > MAX_XML_BYTES:
                raise UnsafeDocument("it unpacks to more than 64 MB")
            parser.Parse(chunk)
        parser.Parse(b"", True)
        return "\n\n".join(self._blocks)

    def _start_element(self, name: str, attributes: dict[str, str]) -> None:
        namespace, _, tag = name.rpartition(" ")
        if name == FALLBACK or self._skip_depth:
            self._skip_depth += 1
        elif namespace in WORD_NAMESPACES:
            self._start_tag(tag, attributes.get(f"{namespace} val", ""))

    def _start_tag(self, tag: str, value: str) -> None:
        if tag == "t":
            self._in_text = True
        elif tag in BREAKS:
            self._paragraph.append(BREAKS[tag])
        elif tag == "pStyle" and value[:-1].lower() == "heading" and value[-1] in "123456":
            self._heading = "#" * int(value[-1]) + " "
        elif tag == "p":
            self._end_paragraph()  # a text box starts a paragraph within another
        elif tag == "tr":
            self._rows.append([])
        elif tag == "tc":
            self._cells.append([])

    def _end_element(self, name: str) -> None:
        namespace, _, tag = name.rpartition(" ")
        if self._skip_depth:
            self._skip_depth -= 1
        elif namespace in WORD_NAMESPACES:
            self._end_tag(tag)

    def _end_tag(self, tag: str) -> None:
        if tag == "t":
            self._in_text = False
        elif tag == "p":
            self._end_paragraph()
        elif tag == "tc":
            self._rows[-1].append(" ".join(self._cells.pop()))
        elif tag == "tr":
            self._add(" | ".join(self._rows.pop()))

    def _add_text(self, text: str) -> None:
        if self._in_text and not self._skip_depth:
            self._paragraph.append(text)

    def _end_paragraph(self) -> None:
        text = "".join(self._paragraph).strip()
        if text:
            self._add(self._heading + text)
        self._paragraph.clear()
        self._heading = ""

    def _add(self, text: str) -> None:
        (self._cells[-1] if self._cells else self._blocks).append(text)


def _refuse_doctype(*_: object) -> None:
    raise UnsafeDocument("it declares a DOCTYPE, which Word documents never do")
