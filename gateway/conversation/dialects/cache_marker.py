"""Which marker for Anthropic's prompt cache the end of the stable block gets, next to the client's own markers."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

NAME: Final = b'"cache_control"'
NULL: Final = b"null"
MAX_MARKERS: Final = 4  # that Anthropic takes in one request
SHORT: Final = b'{"type":"ephemeral"}'
LONG: Final = b'{"type":"ephemeral","ttl":"1h"}'
FOR_AN_HOUR: Final = re.compile(NAME + rb'\s*:\s*\{[^{}]*"1h"')


def choose_marker(fields: Mapping[str, Any], before: Iterable[Any], behind: Iterable[Any]) -> bytes | None:
    """The marker between these pieces of a request; None if it has as many as Anthropic takes.

    `fields` has the marker of the request as a whole, which counts as one behind everything. Anthropic takes no marker
    for an hour behind one for five minutes, so ours is for an hour if one behind it is.
    """
    later = [data for raw in behind if NAME in (data := bytes(raw))]
    whole = bytes(fields.get("cache_control") or NULL)
    if whole != NULL:
        later.append(NAME + b":" + whole)
    if sum([data.count(NAME) for data in later]) + sum([bytes(raw).count(NAME) for raw in before]) >= MAX_MARKERS:
        return None
    return LONG if any(FOR_AN_HOUR.search(data) for data in later) else SHORT
