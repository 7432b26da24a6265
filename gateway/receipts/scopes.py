"""What a receipt says about the scope of its exchange: all that is needed to build the request again, but no text."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from gateway.domain.agent import UNTUNED_SELECTION
from gateway.domain.exchange import Exchange
from gateway.domain.session import Session

NO_SESSION: Final = Session()
MAX_NAME = 512  # characters of a name that the caller chose


def describe_scope(exchange: Exchange) -> dict[str, Any] | None:
    """The scope as it was used, with the state of the session; None if the request failed before it was known.

    What has its default is left out: most receipts need none of it.
    """
    scope = exchange.scope
    if scope is None:
        return None
    asked, tools = scope.request, exchange.injection.tools if exchange.injection is not None else None

    def list_known(ids: Iterable[str]) -> list[str]:
        # Others change nothing, and a caller may send as many as it likes.
        return [identity for identity in ids if identity in exchange.snapshot.resources]

    described = {
        "profile": asked.profile,  # only if the request itself names one
        "language": asked.language and asked.language[:MAX_NAME],
        "type": asked.type and asked.type[:MAX_NAME],
        "budget": asked.budget,
        "inject": asked.inject,
        "contexts": list(scope.contexts),
        "include": list_known(asked.include),
        "exclude": sorted(list_known(asked.exclude)),
        "selection": None if asked.selection == UNTUNED_SELECTION else msgspec.to_builtins(asked.selection),
        "bound": scope.bound or None,
        "readers": sorted(exchange.principal.readers(asked.user)),
        "session": None if scope.session in (None, NO_SESSION) else msgspec.to_builtins(scope.session),
        "tools": sorted(tools.names) if tools is not None else [],
    }
    found = drop_empty(described)
    if scope.tools is not None:
        found["key_tools"] = sorted(scope.tools)  # none at all is not the same as any
    return found


def drop_empty(value: dict[str, Any]) -> dict[str, Any]:
    """A mapping without what is null or empty, at any depth."""
    inner = ((key, drop_empty(one) if isinstance(one, dict) else one) for key, one in value.items())
    return {key: one for key, one in inner if one is not None and one not in ({}, [], (), "")}
