"""Path patterns of the management API: `/contexts/{context}`, and `/content/{node...}`, which may span slashes."""

import re
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote_to_bytes

from gateway.errors import InvalidRequest

_PARAMETER = re.compile(r"\{(\w+)(\.\.\.)?\}")
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")

LITERAL, PARAMETER, SPAN, END = range(4)  # the order in which patterns are tried, segment by segment


@dataclass(frozen=True)
class Pattern:
    """One path of the table. At most one of its parameters spans segments."""

    text: str

    @cached_property
    def _segments(self) -> tuple[tuple[int, str], ...]:
        return tuple(_segment(part) for part in self.text.strip("/").split("/"))

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of its parameters in the order of the path."""
        return tuple(name for kind, name in self._segments if kind != LITERAL)

    @property
    def template(self) -> str:
        """The path as OpenAPI writes it."""
        return "/" + "/".join(name if kind == LITERAL else f"{{{name}}}" for kind, name in self._segments)

    @property
    def rank(self) -> tuple[int, ...]:
        """Sorts the more specific pattern first: `/contexts/global` before `/contexts/{context}`."""
        return *(kind for kind, _ in self._segments), END

    def match(self, path: tuple[str, ...]) -> dict[str, str] | None:
        """The values of the parameters, or None if the path is another one."""
        span = next((n for n, (kind, _) in enumerate(self._segments) if kind == SPAN), None)
        if span is not None:
            after = len(self._segments) - span - 1
            if len(path) < len(self._segments):
                return None
            path = (*path[:span], "/".join(path[span : len(path) - after]), *path[len(path) - after :])
        if len(path) != len(self._segments):
            return None
        found: dict[str, str] = {}
        for (kind, name), given in zip(self._segments, path, strict=True):
            if kind != LITERAL:
                found[name] = given
            elif name != given:
                return None
        return found


def segments(raw_path: bytes, prefix: bytes) -> tuple[str, ...]:
    """The decoded segments of a path below `prefix`. An escaped slash stays inside its segment."""
    below = raw_path[len(prefix) :].strip(b"/")
    if _BROKEN_ESCAPE.search(below):
        raise InvalidRequest("The path holds an escape that is not complete.")
    try:
        return tuple(unquote_to_bytes(part).decode() for part in below.split(b"/"))
    except UnicodeDecodeError as error:
        raise InvalidRequest("The path is not valid UTF-8.") from error


def _segment(part: str) -> tuple[int, str]:
    parameter = _PARAMETER.fullmatch(part)
    if parameter is None:
        return LITERAL, part
    return (SPAN if parameter[2] else PARAMETER), parameter[1]
