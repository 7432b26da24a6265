"""The files of the console: found and read when somebody asks for them, compressed once, in one version.

Browsers may keep a file for ever if its address names the version (`/console/@0123456789ab/app.js`). Only the page
itself has to be asked for each time: it is rewritten to name the version, one style sheet instead of several, and all
modules that it will need; modules import each other by relative paths.
"""

import gzip
import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final, Self

import msgspec

from gateway.edge.console_modules import find_page_module, list_modules

FOLDER: Final = Path(__file__).parent.parent / "console"
PREFIX: Final = "/console"
INDEX: Final = "index.html"
VERSION_MARK: Final = "@"  # a path segment that begins so names a version
STYLES: Final = "styles/all.css"  # made of the style sheets that the page names
SCRIPT_TAG: Final = '<script type="module"'
MIN_COMPRESSED: Final = 512  # bytes; below that compressing saves nothing

TEXT_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
CONTENT_TYPES: Final = {
    **TEXT_TYPES,
    ".ico": "image/vnd.microsoft.icon",
    ".png": "image/png",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}


_STYLE_LINK = re.compile(r' *<link rel="stylesheet" href="[^"]+">\n?')


def is_console_path(path: str) -> bool:
    """Whether a normalized path belongs to the console."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


FileStates = tuple[tuple[str, int, int], ...]  # path, time of the last change, size


class ConsoleFile(msgspec.Struct, frozen=True):
    """A file as it is sent."""

    content_type: str
    body: bytes
    compressed: bytes | None  # None: not worth it
    digest: str

    @classmethod
    def pack(cls, body: bytes, suffix: str) -> Self:
        """A file with one of the suffixes of CONTENT_TYPES."""
        packed = gzip.compress(body, mtime=0) if suffix in TEXT_TYPES and len(body) >= MIN_COMPRESSED else None
        return cls(CONTENT_TYPES[suffix], body, packed, sha256(body).hexdigest()[:32])


class ConsoleVersion(msgspec.Struct, frozen=True):
    """The files at one time, and those of them that were read."""

    states: FileStates
    digest: str
    paths: dict[str, Path]
    read: dict[str, ConsoleFile] = msgspec.field(default_factory=dict)

    def read_bytes(self, name: str) -> bytes | None:
        """A file as it is on disk; None: there is none."""
        path = self.paths.get(name)
        return None if path is None else path.read_bytes()

    def read_text(self, name: str) -> str | None:
        body = self.read_bytes(name)
        return None if body is None else body.decode()


def compute_version(files: Iterable[tuple[str, bytes]]) -> str:
    """The version of files, by their names and what they contain."""
    whole = sha256()
    for name, body in files:
        whole.update(b"%b\0%b" % (name.encode(), sha256(body).digest()))
    return whole.hexdigest()[:12]


class ConsoleFiles:
    """Files below a folder; every method but `find_read` may block."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._version: ConsoleVersion | None = None

    def find_read(self, path: str, version: str | None) -> ConsoleFile | None:
        """A file that was read before; None if it was not, or there is none."""
        known = self._version
        return known.read.get(path) if known is not None and version in (None, known.digest) else None

    def read(self, path: str) -> ConsoleFile | None:
        """A file by its path below the folder; None: there is none."""
        if path == INDEX:
            return self.read_page("")
        version = self._version = self._version or self._find_version()
        if path not in version.read:
            body = join_styles(version) if path == STYLES else version.read_bytes(path)
            if body is None:
                return None
            version.read[path] = ConsoleFile.pack(body, Path(path).suffix)
        return version.read[path]

    def read_page(self, address: str) -> ConsoleFile | None:
        """The index, with links to what the page at an address will load; looks whether any file was changed."""
        self._version = version = self._find_version()
        body, module = version.read_text(INDEX), find_page_module(address, version.read_text)
        if body is None:
            return None
        name = f"{INDEX} {module}"  # no path of a file: it has a space
        if name not in version.read:
            linked = link_files(body, list_modules(module, version.read_text), version.digest)
            version.read[name] = ConsoleFile.pack(linked.encode(), Path(INDEX).suffix)
        return version.read[name]

    @property
    def digest(self) -> str:
        """The version that is served now; empty before the first read."""
        return self._version.digest if self._version is not None else ""

    def _find_version(self) -> ConsoleVersion:
        paths = {
            path.relative_to(self._folder).as_posix(): path
            for path in sorted(self._folder.rglob("*"))
            if path.suffix in CONTENT_TYPES and path.is_file()
        }
        states = tuple((name, (state := path.stat()).st_mtime_ns, state.st_size) for name, path in paths.items())
        if self._version is not None and self._version.states == states:
            return self._version
        digest = compute_version((name, path.read_bytes()) for name, path in paths.items())
        return ConsoleVersion(states, digest, paths)


def link_files(page: str, modules: Iterable[str], digest: str) -> str:
    """The page with one style sheet instead of several, links to the modules, and every address in its version."""
    styles = _STYLE_LINK.findall(page)
    if styles:
        page = page.replace(styles[0], f'  <link rel="stylesheet" href="{PREFIX}/{STYLES}">\n')
        page = _STYLE_LINK.sub(lambda link: link[0] if STYLES in link[0] else "", page)
    hints = "".join(f'<link rel="modulepreload" href="{PREFIX}/{name}">\n  ' for name in modules)
    page = page.replace(SCRIPT_TAG, hints + SCRIPT_TAG, 1)
    return page.replace(f'="{PREFIX}/', f'="{PREFIX}/{VERSION_MARK}{digest}/')


def join_styles(version: ConsoleVersion) -> bytes | None:
    """The style sheets of the page as one file in the folder of most of them, so that their addresses stay right."""
    page = version.read_text(INDEX) or ""
    names = [link.partition(f'href="{PREFIX}/')[2].partition('"')[0] for link in _STYLE_LINK.findall(page)]
    texts = [version.read_text(name) for name in names]
    return "\n".join(text for text in texts if text is not None).encode() if names else None
