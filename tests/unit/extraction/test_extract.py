import io
import os
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import pytest

from gateway.extraction import extract
from gateway.extraction.extract import DocumentCache, extract_html, extract_text
from gateway.extraction.formats import DocumentFormat
from gateway.settings import DocumentSettings

LIMITS = DocumentSettings()
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def pdf(drawing: bytes) -> bytes:
    """A one-page PDF whose content stream is `drawing`, deflated."""
    packed = zlib.compress(drawing, 9)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(packed), packed),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    out, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj%s endobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    end = b"xref\n0 6\n0000000000 65535 f \n%strailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (table, len(out))
    return bytes(out) + end


def docx(body: str, doctype: str = "", **entries: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        document = f'{doctype}<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
        archive.writestr("word/document.xml", document)
        for name, content in entries.items():
            archive.writestr(name, content)
    return out.getvalue()


def paragraph(text: str, style: str = "") -> str:
    look = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{look}<w:r><w:t>{text}</w:t></w:r></w:p>"


SAY_HELLO = b"BT /F1 12 Tf 20 200 Td (Hello from a PDF) Tj ET"


@pytest.fixture
def write(tmp_path):
    def write(name: str, content: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.txt", "Grüße".encode(), "Grüße"),
        ("a.txt", b"\xef\xbb\xbfBOM", "BOM"),
        ("a.md", b"# Title\n\n<b>kept</b>\n", "# Title\n\n<b>kept</b>\n"),
        ("notes", b"no suffix", "no suffix"),
        ("a.html", b"<p>One<script>x</script></p>", "One"),
        ("page", b"<!DOCTYPE html><p>One</p>", "One"),
        ("latin.htm", b"<meta charset='iso-8859-1'><p>Caf\xe9 \x80</p>", "Café €"),
        ("odd.htm", b"<meta charset='unicode_escape'><p>\\u0041</p>", "\\u0041"),
        ("a.pdf", pdf(SAY_HELLO), "Hello from a PDF"),
        ("scan", pdf(SAY_HELLO), "Hello from a PDF"),
        ("a.docx", docx(paragraph("Rules", "Heading2") + paragraph("Be kind.")), "## Rules\n\nBe kind."),
    ],
)
def test_the_text_of_each_format_is_taken(write, name, content, text):
    assert extract_text(write(name, content), LIMITS) == text


def test_a_word_table_is_a_line_per_row(write):
    cell = "<w:tc>{}</w:tc>".format
    row = f"<w:tr>{cell(paragraph('a') + paragraph('b'))}{cell(paragraph('c'))}</w:tr>"
    body = f"<w:tbl>{row}{row}</w:tbl>" + paragraph("After<w:tab/>")
    assert extract_text(write("t.docx", docx(body)), LIMITS) == "a b | c\n\na b | c\n\nAfter"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.txt", b"\xff\xfe\x00", "not UTF-8 text"),
        ("a.png", b"\x89PNG\r\n\x1a\n", "not UTF-8 text"),
        ("a.md", b"a\0b", "NUL"),
        ("a.pdf", b"%PDF-1.4 nonsense", "damaged or not a PDF"),
        ("a.pdf", pdf(b""), "contains no text"),
        ("a.docx", b"not a zip", "damaged or not a DOCX"),
        ("a.docx", docx("<w:p>"), "damaged or not a DOCX"),
        ("a.docx", docx("x", doctype="<!DOCTYPE x>"), "DOCTYPE"),
        ("a.docx", docx("&e;", doctype='<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'), "DOCTYPE"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(write, name, content, reason):
    with pytest.raises(ValueError, match=f"^{name}: .*{reason}"):
        extract_text(write(name, content), LIMITS)


def test_a_zip_that_is_no_word_document_is_refused(write):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.txt", "x")
    with pytest.raises(ValueError, match="not a Word document"):
        extract_text(write("a.docx", out.getvalue()), LIMITS)


def test_a_zip_bomb_is_refused(write):
    bomb = docx(" " * (70 * 1024 * 1024))
    assert len(bomb) < 200_000
    with pytest.raises(ValueError, match="unpacks to more than 64 MB"):
        extract_text(write("bomb.docx", bomb), LIMITS)


def test_a_document_may_not_use_more_cpu_than_it_is_given(write):
    slow = write("slow.pdf", pdf(b"BT /F1 12 Tf " + b"1 0 Td (x) Tj " * 400_000 + b"ET"))
    with pytest.raises(ValueError, match=r"CPU time|longer than"):
        extract_text(slow, DocumentSettings(cpu_seconds=1, seconds=5))


def test_a_document_may_not_use_more_memory_than_it_is_given(write):
    with pytest.raises(ValueError, match="more than 40 MB of memory"):
        extract_text(write("big.html", b"x" * 18_000_000), DocumentSettings(memory_mb=40))


def test_a_document_may_not_take_longer_than_the_wall_clock_allows(write):
    with pytest.raises(ValueError, match=r"longer than 0.01 seconds"):
        extract_text(write("a.html", b"<p>x"), DocumentSettings(seconds=0.01))


def test_a_sandbox_that_ends_at_its_very_deadline_is_late_and_its_time_is_counted(monkeypatch):
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    wait, looks = os.wait4, list[int]()

    def look(pid: int, options: int) -> object:
        looks.append(options)
        return (0, 0, None) if len(looks) == 1 else wait(pid, options)  # the first time it still ran

    counted = list[float]()
    monkeypatch.setattr(os, "wait4", look)
    monkeypatch.setattr(extract, "count_process_time", counted.append)
    with pytest.raises(ValueError, match="longer than"):
        extract._wait_for_end(process, DocumentSettings(seconds=1e-9))
    assert (process.returncode, len(counted)) == (0, 1)


def test_nobody_waits_for_ever_for_a_sandbox_that_was_killed(monkeypatch):
    monkeypatch.setattr(extract, "KILLED_SECONDS", 0.01)
    monkeypatch.setattr(os, "kill", lambda *_: None)  # as if it never got a CPU to end on
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    try:
        with pytest.raises(ValueError, match="longer than"):
            extract._wait_for_end(process, DocumentSettings(seconds=0.01))
    finally:
        monkeypatch.undo()
        process.kill()
        process.wait(60)


def test_a_large_file_is_refused_before_it_is_read(write):
    with pytest.raises(ValueError, match="larger than"):
        extract_text(write("a.txt", b"x" * 11), DocumentSettings(max_bytes=10))


def test_text_that_grows_beyond_the_limit_is_refused(write):
    with pytest.raises(ValueError, match="its text is too large"):
        extract_text(write("a.html", b"<h6>" * 100), DocumentSettings(max_bytes=400))


@pytest.mark.parametrize("name", ["missing.md", "."])
def test_a_missing_file_is_reported(tmp_path, name):
    with pytest.raises(ValueError, match="no such file"):
        extract_text(tmp_path / name, LIMITS)


def test_the_parser_process_gets_no_environment_of_ours(monkeypatch, write):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    script = "import os,sys; sys.stdout.write(','.join(sorted(os.environ)))"
    monkeypatch.setattr(extract, "_build_command", lambda *_: [sys.executable, "-c", script])
    seen = set(extract_text(write("a.html", b"x"), LIMITS).split(","))
    assert seen <= {"PYTHONPATH", "LC_CTYPE"}


def test_a_parser_that_cannot_be_run_is_reported(monkeypatch, write):
    monkeypatch.setattr(extract, "_build_command", lambda *_: ["/no/such/interpreter"])
    with pytest.raises(ValueError, match=r"a\.html: the parser cannot be started"):
        extract_text(write("a.html", b"x"), LIMITS)


def test_a_page_is_read_in_the_charset_of_its_reply():
    assert extract_html(b"<p>Caf\xe9", LIMITS, "ISO-8859-1") == "Café"


@pytest.fixture
def parsed(monkeypatch):
    calls = []
    parse = extract._parse

    def count(*arguments, **options):
        calls.append(arguments[0])
        return parse(*arguments, **options)

    monkeypatch.setattr(extract, "_parse", count)
    return calls


def test_unchanged_content_is_parsed_once(write, parsed):
    cache = DocumentCache(LIMITS)
    assert cache.extract(write("a.html", b"<p>One")) == cache.extract(write("b.html", b"<p>One")) == "One"
    assert len(parsed) == 1


def test_changed_content_is_parsed_again(write, parsed):
    cache = DocumentCache(LIMITS)
    assert cache.extract(write("a.html", b"<p>One")) == "One"
    assert cache.extract(write("a.html", b"<p>Two")) == "Two"
    assert len(parsed) == 2


def test_the_same_bytes_under_another_format_are_another_document(write):
    cache = DocumentCache(LIMITS)
    assert cache.extract(write("a.html", b"<p>One")) == "One"
    assert cache.extract(write("a.md", b"<p>One")) == "<p>One"


def test_the_cache_drops_the_least_recently_used(write, parsed):
    cache = DocumentCache(LIMITS, max_entries=1)
    for content in (b"<p>One", b"<p>Two", b"<p>One"):
        cache.extract(write("a.html", content))
    assert len(parsed) == 3


def test_a_sandbox_has_a_low_priority_before_it_imports_anything(tmp_path: Path) -> None:
    """Its imports take longer than most documents; at the usual priority two uploads would keep two cores busy."""
    package = tmp_path / "gateway" / "extraction"
    package.mkdir(parents=True)
    lines = ["import os, sys", "seen = os.getpriority(os.PRIO_PROCESS, 0), 'site' in sys.modules"]
    (package / "sandbox.py").write_text("\n".join([*lines, "def main(arguments):", "    print(*seen, *arguments)"]))
    command = extract._build_command(DocumentFormat.PDF, LIMITS, None, False)
    told = subprocess.run(command, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True)
    lowest = min(19, os.getpriority(os.PRIO_PROCESS, 0) + extract.NICENESS)
    ceilings = [str(LIMITS.cpu_seconds), str(LIMITS.memory_mb), str(LIMITS.max_bytes)]
    assert told.stdout.split() == [str(lowest), "False", "pdf", *ceilings]
