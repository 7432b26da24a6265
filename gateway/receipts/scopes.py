"""What a receipt says about the scope of its exchange: all that is needed to build the request again, but no text."""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from gateway.domain.agent import UNTUNED_SELECTION, Placement
from gateway.domain.exchange import Exchange
from gateway.domain.injection import Injection
from gateway.domain.lru import LruCache
from gateway.domain.principal import Principal
from gateway.domain.scope import Scope
from gateway.domain.session import Session

NO_SESSION: Final = Session()
MAX_NAME = 512  # characters of a name that the caller chose
KEPT_SCOPES, KEPT_BYTES = 256, 4_000_000


class ScopeDescription(msgspec.Struct, frozen=True):
    """What a receipt says about the scope of its exchange."""

    owners: tuple[Scope | None, Injection | None, Principal]  # no others have their identities while this is kept
    details: bytes  # `describe_scope`, encoded
    session: str | None = None
    content: str | None = None
    user: str | None = None
    task: str | None = None
    profile: str | None = None
    prompt: str | None = None
    placement: str | None = None  # where the context went; None: there was none
    shared: bool = False  # by several requests

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return 2 * len(self.details) + MAX_NAME


class ScopeDescriber:
    """Describes scopes; those that many requests share are described once."""

    def __init__(self, encode: Callable[[Any], bytes], placement: Placement) -> None:
        self._encode, self._placement = encode, placement
        self._kept: LruCache[tuple[int, int, int], ScopeDescription] = LruCache(KEPT_SCOPES, KEPT_BYTES)

    def describe(self, exchange: Exchange) -> ScopeDescription:
        scope, injection, principal = exchange.scope, exchange.injection, exchange.principal
        key = (id(scope), id(injection), id(principal))
        known = self._kept.get(key)
        if known is None:
            details = self._encode(describe_scope(exchange))
            known = ScopeDescription((scope, injection, principal), details)
            if scope is not None:
                known = self._add_names(known, scope, injection)
            if injection is not None and scope is not None and scope.request.user is None and scope.session is None:
                known = replace(known, shared=True)
                self._kept.put(key, known, known.size)
        return known

    def _add_names(self, known: ScopeDescription, scope: Scope, injection: Injection | None) -> ScopeDescription:
        asked = scope.request
        has_context = injection is not None and injection.tokens > 0
        return ScopeDescription(
            known.owners,
            known.details,
            shorten_name(asked.session),
            scope.node.path if scope.node is not None else None,
            shorten_name(asked.user),
            shorten_name(asked.task),
            scope.profile.alias if scope.profile is not None else None,
            scope.prompt.alias if scope.prompt is not None else None,
            (scope.placement or self._placement).value if has_context else None,
        )


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
        "tier": exchange.principal.tier,  # decides over the knowledge graph
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


def shorten_name(name: str | None) -> str | None:
    return name[:MAX_NAME] if name is not None else None
