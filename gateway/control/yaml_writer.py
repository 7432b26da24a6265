"""Writes plain data as readable YAML that `gateway.strict_yaml` reads back exactly."""

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

from gateway.strict_yaml import INTEGER, resolve_scalar

STEP = "  "
LONGEST_PLAIN_KEY = 1000  # YAML reads a key before its colon only up to 1,024 characters
WIDTH = 100  # a list of words stays on one line up to this length
# What is always safe as a plain scalar; anything else is quoted.
PLAIN = re.compile(r"[A-Za-z0-9_/.](?:[^\x00-\x1f\x7f-\xa0:#\ufeff\u2028\u2029\ufffe\uffff]|:(?=\S))*")
FLOW = re.compile(r"[,\[\]{}:?\"]")  # special in a list on one line
# Characters that YAML refuses, treats as line breaks or drops.
ESCAPED = re.compile(r"[\x00-\x1f\x7f-\x9f\ufeff\u2028\u2029\ufffe\uffff\"\\]")
# A literal block keeps everything but these; tabs are quoted, because readers differ about them.
NOT_LITERAL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ufeff\u2028\u2029\ufffe\uffff]")
SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def format_yaml(data: dict[str, Any]) -> str:
    """A mapping as a block; raises ValueError for what cannot be written: huge numbers, types that JSON lacks."""
    return "".join(f"{line}\n" for line in _format_mapping(data, "")) if data else "{}\n"


def _format_mapping(data: dict[str, Any], indent: str) -> Iterator[str]:
    for key, value in data.items():
        if not isinstance(key, str):
            raise ValueError(f"{key!r} cannot be a key; keys are text")
        written = _format_in_flow(key)
        if len(written) <= LONGEST_PLAIN_KEY:
            yield from _format_entry(f"{indent}{written}:", value, indent)
        else:
            yield f"{indent}? {written}"
            yield from _format_entry(f"{indent}:", value, indent)


def _format_sequence(data: list[Any], indent: str) -> Iterator[str]:
    for value in data:
        yield from _format_entry(f"{indent}-", value, indent)


def _format_entry(head: str, value: Any, indent: str) -> Iterator[str]:
    """A value after its key or dash, below it if it needs lines of its own."""
    deeper = indent + STEP
    if isinstance(value, str) and _is_literal(value):
        yield from _format_literal(head, value, deeper)
    elif isinstance(value, dict) and value:
        yield head
        yield from _format_mapping(value, deeper)
    elif isinstance(value, list | tuple) and value:
        short = _format_on_one_line(value)
        if short is not None and len(head) + len(short) < WIDTH:
            yield f"{head} {short}"
        else:
            yield head
            yield from _format_sequence(list(value), deeper)
    else:
        yield f"{head} {_format_scalar(value)}"


def _format_on_one_line(values: Any) -> str | None:
    """A list of scalars on one line; None if it needs several."""
    if any(isinstance(value, dict | list | tuple) or (isinstance(value, str) and "\n" in value) for value in values):
        return None
    return f"[{', '.join(_format_in_flow(value) for value in values)}]"


def _format_in_flow(value: Any) -> str:
    return _quote(value) if isinstance(value, str) and FLOW.search(value) else _format_scalar(value)


def _format_scalar(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _format_text(value)
        case int():
            return _format_integer(value)
        case float() if math.isfinite(value):
            return _format_float(value)
        case dict() | list() | tuple():
            return "{}" if isinstance(value, dict) else "[]"
    raise ValueError(f"{value!r} cannot be written in YAML; use JSON")


def _format_integer(value: int) -> str:
    text = str(int(value))
    if not INTEGER.fullmatch(text):
        raise ValueError(f"the number {text[:20]}… has too many digits for YAML; use JSON")
    return text


def _format_float(value: float) -> str:
    """Always with a point: without one, `1e22` would be a string."""
    mantissa, exponent, power = repr(float(value)).partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{exponent}{power}"


def _format_text(text: str) -> str:
    """Text on one line: plain if no YAML reader could mistake it for something else, otherwise quoted."""
    if PLAIN.fullmatch(text) and not text.endswith((" ", ":")) and text == resolve_scalar(text) and _is_word(text):
        return text
    return _quote(text)


def _quote(text: str) -> str:
    return f'"{ESCAPED.sub(_escape, text)}"'


def _is_word(text: str) -> bool:
    """Whether common readers see text too; for them `no` is false and `2024-01-01` a date."""
    patterns = yaml.SafeLoader.yaml_implicit_resolvers.get(text[:1], ())
    return not any(pattern.match(text) for _, pattern in patterns) and not text.startswith("...")


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return SHORT_ESCAPES.get(character) or f"\\u{ord(character):04x}"


def _is_literal(text: str) -> bool:
    return "\n" in text.strip("\n") and NOT_LITERAL.search(text) is None


def _format_literal(head: str, text: str, indent: str) -> Iterator[str]:
    """A block of lines; the indicators give its indentation (if it begins with a space) and how it ends."""
    body = text.rstrip("\n")
    ends = len(text) - len(body)
    width = str(len(STEP)) if text[0] in " \n" else ""
    yield f"{head} |{width}{('-', '')[ends] if ends < 2 else '+'}"
    yield from (f"{indent}{line}" if line else "" for line in body.split("\n"))
    yield from [""] * (ends - 1)
