"""Which requests are the background work of a chat interface (titles, tags), and go without context."""

from collections.abc import Sequence
from typing import Self

import msgspec

from gateway.conversation.dialect import Dialect
from gateway.edge.request import HeaderLines
from gateway.errors import GatewayError
from gateway.loop_turns import LoopTurns
from gateway.settings import Settings
from gateway.settings_sections import BackgroundRuleSettings

INJECT = b"x-context-inject"
OFF = (INJECT, b"off")


class BackgroundRules(msgspec.Struct, frozen=True):
    """Plain comparisons, linear in what is sent; the first rule that matches is enough."""

    rules: Sequence[BackgroundRuleSettings]
    dialect: Dialect

    def add_inject(self, headers: HeaderLines, context: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """Whether `x-context-inject: off` is to be added: a rule matches, and the request itself says nothing."""
        if any(name == INJECT for name, _ in context):
            return False
        by_text = [rule for rule in self.rules if rule.header is None]
        by_header = [rule for rule in self.rules if rule.header is not None]
        if not by_text and not any(matches_header(rule, headers) for rule in by_header):
            return False
        try:
            asked = self.dialect.decode(body)
            context = asked.get("context")
            text = self.dialect.read_last_user_text(asked.messages).lstrip() if by_text else ""
        except (GatewayError, msgspec.MsgspecError, UnicodeError, RecursionError):
            return False  # whoever reads the body next says what is wrong with it
        if isinstance(context, dict) and context.get("inject") is not None:
            return False
        if any(matches_header(rule, headers) for rule in by_header):
            return True
        return any(matches_text(rule, text) for rule in by_text)


class BodyRules(msgspec.Struct, frozen=True):
    """What the bodies of an endpoint are, and what holds for them."""

    dialect: Dialect
    max_bytes: int
    turns: LoopTurns  # for large ones
    background: BackgroundRules | None = None

    @classmethod
    def from_settings(cls, settings: Settings, dialect: Dialect, turns: LoopTurns) -> Self:
        rules = BackgroundRules(settings.background, dialect) if settings.background else None
        return cls(dialect, settings.limits.body_bytes, turns, rules)


def matches_header(rule: BackgroundRuleSettings, headers: HeaderLines) -> bool:
    assert rule.header is not None
    wanted = rule.header.lower().encode()
    expected = None if rule.value is None else rule.value.encode()
    return any(name == wanted and expected in (None, value.strip()) for name, value in headers)


def matches_text(rule: BackgroundRuleSettings, text: str) -> bool:
    if rule.prefix is not None:
        return text.startswith(rule.prefix)
    return rule.contains is not None and rule.contains in text
