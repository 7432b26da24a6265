"""Templates of prompts: text with `{input}`, `{content}`, `{context}` and `{vars.NAME}`; `{{` and `}}` are braces."""

import re
from collections.abc import Mapping

import msgspec

NAMES = ("input", "content", "context")
VARIABLE = re.compile(r"vars\.[A-Za-z_][A-Za-z0-9_-]*")
# Every brace takes part in exactly one alternative, so that none is passed over in silence.
TOKEN = re.compile(r"\{\{|\}\}|\{([^{}\n]*)\}|[{}]")
BRACES = {"{{": "{", "}}": "}"}


class Literal(msgspec.Struct, frozen=True):
    """Text that stands as it is."""

    text: str


class Placeholder(msgspec.Struct, frozen=True):
    """A place that `fill` puts a value in: "input", "content", "context" or "vars.NAME"."""

    name: str


Part = Literal | Placeholder


def parse_template(text: str) -> tuple[Part, ...]:
    """The parts of a template; raises ValueError with a sentence for its author."""
    parts: list[Part] = []
    literal, end = "", 0
    for token in TOKEN.finditer(text):
        literal += text[end : token.start()]
        end = token.end()
        if token.group() in BRACES:
            literal += BRACES[token.group()]
            continue
        if literal:
            parts.append(Literal(literal))
        parts.append(Placeholder(_name(token)))
        literal = ""
    literal += text[end:]
    return (*parts, Literal(literal)) if literal else tuple(parts)


def fill_parts(parts: tuple[Part, ...], values: Mapping[str, str]) -> str:
    """The filled template. Values are taken as they are: one pass, nothing in them is expanded again.

    Raises KeyError with the placeholder's name when a value is missing.
    """
    return "".join(part.text if isinstance(part, Literal) else values[part.name] for part in parts)


def _name(token: re.Match[str]) -> str:
    name = token.group(1)
    if name is None:
        raise ValueError(f"a single {token.group()!r} is not a placeholder; write {token.group() * 2!r} for a brace")
    if name not in NAMES and not VARIABLE.fullmatch(name):
        raise ValueError(f"{{{name}}} is not a placeholder; use {{input}}, {{content}}, {{context}} or {{vars.NAME}}")
    return name
