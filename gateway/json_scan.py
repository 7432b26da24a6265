"""Tells when text that comes in pieces has become one whole JSON value, looking at every character once."""

import re

import orjson

LONGEST_SCALAR = 64  # characters up to which a number or word on its own is looked at; arguments are objects

_IN_STRING = re.compile(r'["\\]')
_OUTSIDE = re.compile(r'["{}\[\]]|[^\s"{}\[\]]+')


class JsonScan:
    """Follows quotes and brackets, and parses the text only when it may be complete."""

    __slots__ = ("_depth", "_ended", "_escaped", "_in_string", "_invalid", "_pieces", "_scanned", "_valid")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._scanned = 0  # pieces that were followed
        self._depth = 0
        self._in_string = self._escaped = False
        self._ended = False  # the outermost string, object or array is closed
        self._invalid = False  # nothing that comes can make it valid
        self._valid: bool | None = None  # known once it has ended

    def add(self, piece: str) -> None:
        self._pieces.append(piece)

    @property
    def is_complete(self) -> bool:
        """Whether everything so far is one valid JSON value."""
        for piece in self._pieces[self._scanned :]:
            self._follow(piece)
        self._scanned = len(self._pieces)
        if self._invalid or self._in_string or self._depth:
            return False
        if not self._ended:
            text = "".join(self._pieces[: LONGEST_SCALAR + 1])
            return len(text) <= LONGEST_SCALAR and len(self._pieces) <= LONGEST_SCALAR and is_valid_json(text)
        if self._valid is None:
            self._valid = is_valid_json("".join(self._pieces))
        return self._valid

    def _follow(self, piece: str) -> None:
        at = 0
        while at < len(piece) and not self._invalid:
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            found = (_IN_STRING if self._in_string else _OUTSIDE).search(piece, at)
            if found is None:
                return
            at = found.end()
            if self._in_string:
                self._leave_string(found[0])
            else:
                self._take_mark(found[0])

    def _leave_string(self, mark: str) -> None:
        if mark == "\\":
            self._escaped = True
        else:
            self._in_string = False
            self._ended = not self._depth

    def _take_mark(self, mark: str) -> None:
        if self._ended:
            self._invalid = True  # only white space may follow
        elif mark == '"':
            self._in_string = True
        elif mark in "{[":
            self._depth += 1
        elif mark in "}]":
            self._depth -= 1
            self._ended = self._depth == 0
            self._invalid = self._depth < 0


def is_valid_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
