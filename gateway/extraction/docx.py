"""The text of a DOCX file: paragraphs, headings and tables, read without building a tree."""

import zipfile
from typing import IO
from xml.parsers import expat

BODY = "word/document.xml"
MAX_ENTRIES = 10_000
MAX_XML_BYTES = 64 * 1024 * 1024
CHUNK = 64 * 1024

# ISO 29500 transitional and strict.
WORD = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",
)
FALLBACK = "http://schemas.openxmlformats.org/markup-compatibility/2006 Fallback"  # repeats what stands before it
BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


class UnsafeDocument(ValueError):
    """A file that is left unread, with a sentence for its author."""


def docx_to_text(source: IO[bytes]) -> str:
    """Blocks separated by blank lines; a table is a line per row."""
    with zipfile.ZipFile(source) as archive:
        if len(archive.infolist()) > MAX_ENTRIES or BODY not in archive.namelist():
            raise UnsafeDocument("it is not a Word document")
        entry = archive.getinfo(BODY)
        if entry.flag_bits & 1:
            raise UnsafeDocument("it is encrypted")
        with archive.open(entry) as body:
            return _Body().read(body)


class _Body:
    """Handlers for one pass over document.xml."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._rows: list[list[str]] = []  # the rows being read, outermost first
        self._cells: list[list[str]] = []
        self._paragraph: list[str] = []
        self._heading = ""
        self._in_text = False
        self._skipped = 0

    def read(self, body: IO[bytes]) -> str:
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartDoctypeDeclHandler = _refuse_doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._data
        taken = 0
        # Sizes in the archive's directory may lie, so that what really comes out is counted.
        while chunk := body.read(CHUNK):
            taken += len(chunk)
            if taken > MAX_XML_BYTES:
                raise UnsafeDocument("it unpacks to more than 64 MB")
            parser.Parse(chunk)
        parser.Parse(b"", True)
        return "\n\n".join(self._blocks)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        space, _, tag = name.rpartition(" ")
        if name == FALLBACK or self._skipped:
            self._skipped += 1
        elif space in WORD:
            self._start_word(tag, attributes.get(f"{space} val", ""))

    def _start_word(self, tag: str, value: str) -> None:
        if tag == "t":
            self._in_text = True
        elif tag in BREAKS:
            self._paragraph.append(BREAKS[tag])
        elif tag == "pStyle" and value[:-1].lower() == "heading" and value[-1] in "123456":
            self._heading = "#" * int(value[-1]) + " "
        elif tag == "p":
            self._end_paragraph()  # a text box opens a paragraph within one
        elif tag == "tr":
            self._rows.append([])
        elif tag == "tc":
            self._cells.append([])

    def _end(self, name: str) -> None:
        space, _, tag = name.rpartition(" ")
        if self._skipped:
            self._skipped -= 1
        elif space in WORD:
            self._end_word(tag)

    def _end_word(self, tag: str) -> None:
        if tag == "t":
            self._in_text = False
        elif tag == "p":
            self._end_paragraph()
        elif tag == "tc":
            self._rows[-1].append(" ".join(self._cells.pop()))
        elif tag == "tr":
            self._put(" | ".join(self._rows.pop()))

    def _data(self, text: str) -> None:
        if self._in_text and not self._skipped:
            self._paragraph.append(text)

    def _end_paragraph(self) -> None:
        text = "".join(self._paragraph).strip()
        if text:
            self._put(self._heading + text)
        self._paragraph.clear()
        self._heading = ""

    def _put(self, text: str) -> None:
        (self._cells[-1] if self._cells else self._blocks).append(text)


def _refuse_doctype(*_: object) -> None:
    raise UnsafeDocument("it declares a DOCTYPE, which Word documents never do")
