"""Replaces `${NAME}` and `${NAME:-default}` in the scalars of a parsed configuration; `$${` gives a plain `${`."""

import re
from collections.abc import Mapping
from typing import Any

from gateway.errors import Fault
from gateway.strict_yaml import Keys, YamlDocument

# The last alternative catches what looks like a placeholder but is not valid.
PLACEHOLDER = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{[^}]*\}?")


def interpolate_document(document: YamlDocument, environ: Mapping[str, str]) -> tuple[Any, list[Fault]]:
    """The document's data with every placeholder replaced, and a fault for each name without a value."""
    faults: list[Fault] = []

    def visit(value: Any, keys: Keys) -> Any:
        if isinstance(value, dict):
            return {key: visit(inner, (*keys, key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [visit(inner, (*keys, position)) for position, inner in enumerate(value)]
        if not isinstance(value, str):
            return value
        try:
            return interpolate(value, environ)
        except ValueError as error:
            faults.append(document.fault(keys, str(error)))
            return value

    return visit(document.data, ()), faults


def interpolate(text: str, environ: Mapping[str, str]) -> str:
    """One scalar with its placeholders replaced; values are taken literally. Raises ValueError with a message."""

    def replace(token: re.Match[str]) -> str:
        name, default = token.groups()
        if token.group() == "$${":
            return "${"
        if name is None:
            raise ValueError(f"{token.group()!r} is neither ${{NAME}} nor ${{NAME:-default}}; $${{ gives a plain ${{")
        if default is not None:
            return environ.get(name) or default
        if name not in environ:
            raise ValueError(f"${{{name}}} is not set in the environment; set it or write ${{{name}:-default}}")
        return environ[name]

    return PLACEHOLDER.sub(replace, text)
