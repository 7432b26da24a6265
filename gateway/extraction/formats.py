"""Which format a document has, by its name and, failing that, by how it begins."""

import re
from enum import StrEnum
from pathlib import PurePath


class Format(StrEnum):
    """The formats whose text can be taken."""

    TEXT = "text"
    HTML = "html"
    PDF = "pdf"
    DOCX = "docx"


MEDIA_TYPES = {
    "text/plain": Format.TEXT,
    "text/markdown": Format.TEXT,
    "text/html": Format.HTML,
    "application/pdf": Format.PDF,
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": Format.DOCX,
}

SUFFIXES = {
    ".txt": Format.TEXT,
    ".md": Format.TEXT,
    ".markdown": Format.TEXT,
    ".html": Format.HTML,
    ".htm": Format.HTML,
    ".xhtml": Format.HTML,
    ".pdf": Format.PDF,
    ".docx": Format.DOCX,
}

# WHATWG "meta prescan": a page names its charset within the first 1,024 bytes.
META_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)

# Character sets by name, so that a page cannot pick one of Python's other codecs (zip, rot13, unicode_escape …).
CHARSETS = re.compile(
    r"utf-?8|utf-?16(le|be)?|us-ascii|iso-8859-\d{1,2}|windows-125\d|koi8-[ru]"
    r"|shift_jis|euc-(jp|kr)|iso-2022-jp|gb2312|gbk|gb18030|big5"
)


def by_name(path: str) -> Format | None:
    """The format that the file's suffix promises."""
    return SUFFIXES.get(PurePath(path).suffix.lower())


def by_content(content: bytes) -> Format:
    """The format that the first bytes show; text when nothing else fits."""
    head = content[:1024].lstrip().lower()
    if head.startswith(b"%pdf-"):
        return Format.PDF
    if head.startswith(b"pk\x03\x04"):
        return Format.DOCX
    return Format.HTML if head.startswith((b"<!doctype html", b"<html")) else Format.TEXT


def decode_text(content: bytes, charset: str | None = None) -> str:
    """Text, strictly: a byte that is wrong means that this is something else."""
    text = content.decode(known_charset(charset) or "utf-8-sig")
    if "\0" in text:
        raise ValueError("it holds NUL characters, so it is not text")
    return text


def decode_html(content: bytes, charset: str | None = None) -> str:
    """HTML as a browser would: BOM, declared charset, <meta>, UTF-8; wrong bytes are replaced."""
    if content.startswith(b"\xef\xbb\xbf"):
        charset = None
    elif charset is None and (meta := META_CHARSET.search(content[:1024])):
        charset = meta[1].decode("ascii", "replace")
    return content.decode(known_charset(charset) or "utf-8-sig", "replace")


def known_charset(charset: str | None) -> str | None:
    """Python's name for a declared charset; None when it is absent, unknown or UTF-8."""
    name = (charset or "").strip().strip("\"'").lower()
    if not CHARSETS.fullmatch(name) or name in ("utf-8", "utf8"):
        return None
    # Pages that say Latin-1 mean Windows-1252 (WHATWG Encoding §4.2).
    return "windows-1252" if name in ("iso-8859-1", "us-ascii") else name
