"""The process that parses one untrusted document: bytes on stdin, text on stdout.

Run by extract.py, at a low priority from its first line. It imports as little as it can, limits its own CPU time,
memory and files before it reads a byte, and exits with REFUSED and a sentence on stdout when it knows why a document
cannot be read.
"""

import io
import resource
import sys
from typing import IO

from gateway.extraction.docx import UnsafeDocument, docx_to_text
from gateway.extraction.formats import REFUSED, DocumentFormat, decode_html
from gateway.extraction.html import html_to_text
from gateway.extraction.html_tokens import MarkupError


def main(arguments: list[str]) -> int:
    """`format cpu-seconds memory-mb output-bytes [charset]` → exit status."""
    name, cpu_seconds, memory_mb, output_bytes, *charset = arguments
    _limit_resources(int(cpu_seconds), int(memory_mb) * 1024 * 1024, int(output_bytes))
    try:
        status, text = 0, _extract(DocumentFormat(name), sys.stdin.buffer.read(), *charset)
    except (UnsafeDocument, MarkupError) as refusal:
        status, text = REFUSED, str(refusal)
    except MemoryError:
        status, text = REFUSED, f"it needs more than {memory_mb} MB of memory to read"
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > int(output_bytes):
        status, encoded = REFUSED, b"its text is too large"
    sys.stdout.buffer.write(encoded)
    return status


def _limit_resources(cpu_seconds: int, memory: int, output: int) -> None:
    for kind, ceiling in (
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, output),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
    ):
        resource.setrlimit(kind, (ceiling, ceiling))


def _extract(document_format: DocumentFormat, content: bytes, charset: str | None = None) -> str:
    if document_format is DocumentFormat.HTML:
        return html_to_text(decode_html(content, charset))
    source = io.BytesIO(content)
    return docx_to_text(source) if document_format is DocumentFormat.DOCX else _pdf_to_text(source)


def _pdf_to_text(source: IO[bytes]) -> str:
    from pypdf import PdfReader  # only if needed: the import takes longer than most documents

    reader = PdfReader(source)
    if reader.is_encrypted and not reader.decrypt(""):
        raise UnsafeDocument("it is encrypted")
    text = "\n\n".join(page.extract_text().strip() for page in reader.pages)
    if not text.strip():
        raise UnsafeDocument("it contains no text, perhaps only images")
    return text
