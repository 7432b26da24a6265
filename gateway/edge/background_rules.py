"""Which requests are the background work of a chat interface (titles, tags), and go without context."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from gateway.edge.request import HeaderLines
from gateway.settings import Settings
from gateway.settings_sections import BackgroundRuleSettings

INJECT = b"x-context-inject"
OFF = (INJECT, b"off")


class _AskedMessage(msgspec.Struct):
    role: Any = None
    content: Any = None


class _AskedContext(msgspec.Struct):
    inject: Any = None


class _AskedChat(msgspec.Struct):
    messages: list[_AskedMessage] = []
    context: _AskedContext | None = None


_decode = msgspec.json.Decoder(_AskedChat).decode


@dataclass(frozen=True, slots=True)
class BackgroundRules:
    """Plain comparisons, linear in what is sent; the first rule that matches is enough."""

    rules: Sequence[BackgroundRuleSettings]

    def add_inject(self, headers: HeaderLines, context: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """Whether `x-context-inject: off` is to be added: a rule matches, and the request itself says nothing."""
        if any(name == INJECT for name, _ in context):
            return False
        by_text = [rule for rule in self.rules if rule.header is None]
        by_header = [rule for rule in self.rules if rule.header is not None]
        if not by_text and not any(matches_header(rule, headers) for rule in by_header):
            return False
        try:
            asked = _decode(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return False  # whoever reads the body next says what is wrong with it
        if asked.context is not None and asked.context.inject is not None:
            return False
        if any(matches_header(rule, headers) for rule in by_header):
            return True
        text = read_last_user_text(asked.messages)
        return any(matches_text(rule, text) for rule in by_text)


@dataclass(frozen=True, slots=True)
class BodyRules:
    """What holds for the bodies of chat requests."""

    max_bytes: int
    background: BackgroundRules | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        rules = BackgroundRules(settings.background) if settings.background else None
        return cls(settings.limits.body_bytes, rules)


def matches_header(rule: BackgroundRuleSettings, headers: HeaderLines) -> bool:
    assert rule.header is not None
    wanted = rule.header.lower().encode()
    expected = None if rule.value is None else rule.value.encode()
    return any(name == wanted and expected in (None, value.strip()) for name, value in headers)


def matches_text(rule: BackgroundRuleSettings, text: str) -> bool:
    if rule.prefix is not None:
        return text.startswith(rule.prefix)
    return rule.contains is not None and rule.contains in text


def read_last_user_text(messages: Sequence[_AskedMessage]) -> str:
    """The text of the last user message, without leading space; of parts, all text parts."""
    last = next((one for one in reversed(messages) if one.role == "user"), None)
    content = None if last is None else last.content
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, dict))
        content = "\n".join(text for text in texts if isinstance(text, str))
    return content.lstrip() if isinstance(content, str) else ""
