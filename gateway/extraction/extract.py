"""The text of documents. Text is decoded here; everything that needs a parser goes to a limited process."""

import hashlib
import signal
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path

from gateway.extraction import formats
from gateway.extraction.formats import Format
from gateway.extraction.sandbox import REFUSED
from gateway.settings import DocumentSettings

ROOT = Path(__file__).parents[2]
KEPT = 1024  # documents whose text stays in memory


def extract_text(path: Path, limits: DocumentSettings) -> str:
    """The text of a file; ValueError says in a sentence why there is none."""
    return _extract(path, _read(path, limits), limits)


def extract_html(content: bytes, limits: DocumentSettings, charset: str | None = None) -> str:
    """The visible text of a page that somebody else wrote."""
    return _parse(Format.HTML, content, limits, charset)


def extract_content(content: bytes, form: Format, limits: DocumentSettings, charset: str | None = None) -> str:
    """The text of a document that is at hand; ValueError says in a sentence why there is none."""
    if form is not Format.TEXT:
        return _parse(form, content, limits, charset)
    try:
        return formats.decode_text(content, charset)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not {charset or 'UTF-8'} text (byte {error.start})") from error


class DocumentCache:
    """Extracts once per content, so that a reload parses only what has changed."""

    def __init__(self, limits: DocumentSettings) -> None:
        self._limits = limits
        self._texts: OrderedDict[str, str] = OrderedDict()
        # Held while a document is parsed: one limited process at a time bounds the memory that a reload takes.
        self._lock = threading.Lock()

    def text(self, path: Path) -> str:
        """As `extract_text`; called from any thread."""
        content = _read(path, self._limits)
        key = f"{_format(path, content)}:{hashlib.sha256(content).hexdigest()}"
        with self._lock:
            if key not in self._texts:
                self._texts[key] = _extract(path, content, self._limits)
            self._texts.move_to_end(key)
            while len(self._texts) > KEPT:
                self._texts.popitem(last=False)
            return self._texts[key]


def _read(path: Path, limits: DocumentSettings) -> bytes:
    try:
        if not path.is_file():  # a device or a pipe could be read for ever
            raise ValueError(f"{path.name}: there is no such file")
        with path.open("rb") as file:
            content = file.read(limits.max_bytes + 1)
    except OSError as error:
        raise ValueError(f"{path.name}: it cannot be read: {error.strerror}") from error
    if len(content) > limits.max_bytes:
        raise ValueError(f"{path.name}: it is larger than documents.max_bytes ({limits.max_bytes})")
    return content


def _format(path: Path, content: bytes) -> Format:
    return formats.by_name(path.name) or formats.by_content(content)


def _extract(path: Path, content: bytes, limits: DocumentSettings) -> str:
    form = _format(path, content)
    try:
        return extract_content(content, form, limits)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error


def _parse(form: Format, content: bytes, limits: DocumentSettings, charset: str | None = None) -> str:
    try:
        status, output = _run(_command(form, limits, charset), content, limits)
    except subprocess.TimeoutExpired:
        raise ValueError(f"it took longer than {limits.seconds:g} seconds to read") from None
    except OSError as error:
        raise ValueError(f"the parser cannot be run: {error.strerror}") from error
    return _outcome(status, output.decode(), form, limits)


def _run(command: list[str], content: bytes, limits: DocumentSettings) -> tuple[int, bytes]:
    # Files rather than pipes: RLIMIT_FSIZE then caps the output, and nobody has to pump bytes.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as taken:
        given.write(content)
        given.seek(0)
        process = subprocess.run(
            command,
            stdin=given,
            stdout=taken,
            stderr=subprocess.DEVNULL,
            timeout=limits.seconds,
            env=_environment(),
            cwd="/",
            check=False,
        )
        taken.seek(0)
        return process.returncode, taken.read(limits.max_bytes)


def _command(form: Format, limits: DocumentSettings, charset: str | None) -> list[str]:
    ceilings = [str(limits.cpu_seconds), str(limits.memory_mb), str(limits.max_bytes)]
    declared = [charset] if charset else []
    return [sys.executable, "-s", "-P", "-B", "-m", "gateway.extraction.sandbox", form, *ceilings, *declared]


def _environment() -> dict[str, str]:
    """Nothing of ours but where modules are: secrets stay here, and a source tree works without an install."""
    places = [*(place for place in sys.path if place), str(ROOT)]
    return {"PYTHONPATH": ":".join(dict.fromkeys(places))}


def _outcome(status: int, text: str, form: Format, limits: DocumentSettings) -> str:
    if status == 0:
        return text
    if status == REFUSED:
        raise ValueError(text)
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        raise ValueError(f"it took more than {limits.cpu_seconds} seconds of CPU time to read")
    raise ValueError(f"it is damaged or not a {form.upper()} document")
