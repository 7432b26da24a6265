"""The files of the console: found and read when somebody asks for them, compressed once, in one version.

Browsers may keep a file for ever if its address names the version (`/console/@0123456789ab/app.js`). Only the page
itself has to be asked for each time: it is rewritten to name the version; modules import each other by relative paths.
"""

import gzip
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final, Self

FOLDER: Final = Path(__file__).parent.parent / "console"
PREFIX: Final = "/console"
INDEX: Final = "index.html"
VERSION_MARK: Final = "@"  # a path segment that begins so names a version
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


def is_console_path(path: str) -> bool:
    """Whether a normalized path belongs to the console."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


FileStates = tuple[tuple[str, int, int], ...]  # path, time of the last change, size


@dataclass(frozen=True, slots=True)
class ConsoleFile:
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


@dataclass(frozen=True, slots=True)
class ConsoleVersion:
    """The files at one time, and those of them that were read."""

    states: FileStates
    digest: str
    paths: dict[str, Path]
    read: dict[str, ConsoleFile] = field(default_factory=dict)


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
        """A file by its path below the folder; None: there is none. The index looks whether any file was changed."""
        version = self._version
        if version is None or path == INDEX:
            version = self._version = self._find_version()
        if path not in version.paths:
            return None
        if path not in version.read:
            version.read[path] = self._load(path, version)
        return version.read[path]

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

    def _load(self, path: str, version: ConsoleVersion) -> ConsoleFile:
        body, suffix = version.paths[path].read_bytes(), version.paths[path].suffix
        if path == INDEX:
            own, versioned = f'="{PREFIX}/', f'="{PREFIX}/{VERSION_MARK}{version.digest}/'
            body = body.replace(own.encode(), versioned.encode())
        return ConsoleFile.pack(body, suffix)
