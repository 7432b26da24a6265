"""The format of a document, by its name or else by its first bytes; and how its bytes become text."""

import codecs
import re
from enum import StrEnum
from pathlib import PurePath

REFUSED = 3  # exit status of the sandbox: its output says why the document cannot be read


class DocumentFormat(StrEnum):
    """The formats whose text can be extracted."""

    TEXT = "text"
    HTML = "html"
    PDF = "pdf"
    DOCX = "docx"


MEDIA_TYPES = {
    "text/plain": DocumentFormat.TEXT,
    "text/markdown": DocumentFormat.TEXT,
    "text/html": DocumentFormat.HTML,
    "application/pdf": DocumentFormat.PDF,
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": DocumentFormat.DOCX,
}

SUFFIXES = {
    ".txt": DocumentFormat.TEXT,
    ".md": DocumentFormat.TEXT,
    ".markdown": DocumentFormat.TEXT,
    ".html": DocumentFormat.HTML,
    ".htm": DocumentFormat.HTML,
    ".xhtml": DocumentFormat.HTML,
    ".pdf": DocumentFormat.PDF,
    ".docx": DocumentFormat.DOCX,
}

# WHATWG "meta prescan": a page names its charset within the first 1,024 bytes.
META_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)

# Only real character sets, so that a page cannot choose one of Python's other codecs (zip, rot13, unicode_escape …).
CHARSETS = re.compile(
    r"utf-?8|utf-?16(le|be)?|us-ascii|iso-8859-\d{1,2}|windows-125\d|koi8-[ru]"
    r"|shift_jis|euc-(jp|kr)|iso-2022-jp|gb2312|gbk|gb18030|big5"
)


def detect_format(name: str, content: bytes) -> DocumentFormat:
    """The format that the name's suffix stands for, else the one that the content looks like."""
    return find_format_of_name(name) or detect_format_of_content(content)


def find_format_of_name(name: str) -> DocumentFormat | None:
    """The format that the suffix of a file name stands for."""
    return SUFFIXES.get(PurePath(name).suffix.lower())


def detect_format_of_content(content: bytes) -> DocumentFormat:
    """The format that the first bytes look like; text if nothing else fits."""
    head = content[:1024].lstrip().lower()
    if head.startswith(b"%pdf-"):
        return DocumentFormat.PDF
    if head.startswith(b"pk\x03\x04"):
        return DocumentFormat.DOCX
    return DocumentFormat.HTML if head.startswith((b"<!doctype html", b"<html")) else DocumentFormat.TEXT


def decode_text(content: bytes, charset: str | None = None) -> str:
    """Text, strictly: an invalid byte means that this is something else."""
    text = content.decode(normalize_charset(charset) or "utf-8-sig")
    if "\0" in text:
        raise ValueError("it contains NUL characters, so it is not text")
    return text


def decode_html(content: bytes, charset: str | None = None) -> str:
    """HTML as a browser decodes it: BOM, declared charset, <meta>, UTF-8; invalid bytes are replaced."""
    if content.startswith(b"\xef\xbb\xbf"):
        charset = None
    elif charset is None and (meta := META_CHARSET.search(content[:1024])):
        charset = meta[1].decode("ascii", "replace")
    return content.decode(normalize_charset(charset) or "utf-8-sig", "replace")


def normalize_charset(charset: str | None) -> str | None:
    """Python's name for a declared charset; None if it is absent, unknown or UTF-8."""
    name = (charset or "").strip().strip("\"'").lower()
    if not CHARSETS.fullmatch(name) or name in ("utf-8", "utf8"):
        return None
    try:
        codecs.lookup(name)
    except LookupError:  # iso-8859-99
        return None
    # Pages that declare Latin-1 mean Windows-1252 (WHATWG Encoding §4.2).
    return "windows-1252" if name in ("iso-8859-1", "us-ascii") else name
