"""Secrets are removed from text that people read, each as a whole word: no part of it may tell the rest."""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, unquote, urlsplit

from gateway.settings import Settings

REDACTED = "[redacted]"
DISTINCT = 8  # characters; a shorter secret could be a part of any word
SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)

# A word is whatever stands between spaces, quotes and angle brackets: the characters around a secret would betray it.
_WORD = r"[^\s\"'`<>]"
_NAME = r"(?:x-context-key|api[-_]?key|x-api-key|authorization|password|passwd|secret|token)"
_LOOKS_SECRET = re.compile(
    rf"(?P<scheme>\bBearer\s+){_WORD}+"
    rf"|(?P<field>\b{_NAME}[\"']?\s*[:=]\s*[\"']?(?:(?:Bearer|Basic)\s+)?){_WORD}+"
    rf"|(?P<user>\b[a-z][a-z0-9+.-]{{0,15}}://)[^\s\"'`<>/]*@"
    rf"|(?<![A-Za-z0-9])(?:sk-|cgw_)[A-Za-z0-9_-]{{6}}{_WORD}*",
    re.IGNORECASE,
)


class Redactor:
    """Removes known secrets, and whatever looks like one."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = sorted(set(secrets) - {""}, key=len, reverse=True)
        inside = [re.escape(one) for one in known if len(one) >= DISTINCT]
        alone = [re.escape(one) for one in known if len(one) < DISTINCT]
        parts = [rf"(?:{'|'.join(inside)}){_WORD}*"] if inside else []
        parts += [rf"(?<![^\s\"'`<>,;:=]){one}(?![^\s\"'`<>,;:=.])" for one in alone]
        self._known = re.compile("|".join(parts)) if parts else None

    def redact(self, text: str) -> str:
        """The text with `[redacted]` in place of every secret."""
        if self._known is not None:
            text = self._redact_known(self._known, text)
        return _LOOKS_SECRET.sub(_replace, text)

    def _redact_known(self, known: re.Pattern[str], text: str) -> str:
        kept: list[str] = []
        at = 0
        for found in known.finditer(text):
            kept.append(drop_last_word(text[at : found.start()]))
            kept.append(REDACTED)
            at = found.end()
        return "".join([*kept, text[at:]])


def drop_last_word(text: str) -> str:
    """The text without the word at its end, which may go on behind it."""
    end = len(text)
    while end and not is_border(text[end - 1]):
        end -= 1
    return text[:end]


def drop_first_word(text: str) -> str:
    """The text without the word at its beginning, which may have begun before it."""
    start = 0
    while start < len(text) and not is_border(text[start]):
        start += 1
    return text[start:]


def is_border(character: str) -> bool:
    """Whether no word goes across a character."""
    return character.isspace() or character in "\"'`<>"


def _replace(found: re.Match[str]) -> str:
    return (found["scheme"] or found["field"] or found["user"] or "") + REDACTED + ("@" if found["user"] else "")


def list_secrets(settings: Settings) -> Iterator[str]:
    """The secrets of a configuration, as they could occur in a text."""
    for upstream in settings.upstreams.values():
        yield upstream.api_key or ""
        yield from (value for name, value in upstream.headers.items() if SECRET_HEADER.search(name))
    for server in settings.tool_servers.values():
        yield from (value for name, value in (server.headers | server.env).items() if SECRET_HEADER.search(name))
    yield settings.semantic.embedder.api_key or ""
    yield settings.secret or ""
    password = urlsplit(settings.store).password if "@" in settings.store else None
    if password:
        yield from (password, unquote(password), quote(unquote(password), safe=""))


def build_redactor(settings: Settings) -> Redactor:
    """The redactor of a configuration."""
    return Redactor(list_secrets(settings))
