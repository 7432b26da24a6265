"""What a scope comes down to: all that decides which resources it gets."""

import msgspec

from gateway.domain.candidate import Level


class AppliedContext(msgspec.Struct, frozen=True):
    """A context that applies, whatever agent, node or prompt brought it."""

    level: Level
    alias: str
    mandatory: bool  # the caller cannot switch it off


class EffectiveScope(msgspec.Struct, frozen=True):
    """Known ids and nothing that a caller wrote: scopes for which it is the same share all that is made of it."""

    contexts: tuple[AppliedContext, ...]  # from broad to narrow
    include: tuple[str, ...] = ()  # ids of resources that the request names
    added: tuple[str, ...] = ()  # ids of resources that somebody added to the session
    retained: tuple[str, ...] = ()  # ids of resources that the model fetched in the session
    exclude: frozenset[str] = frozenset()  # ids of resources
    languages: frozenset[str] | None = None  # of resources, in lower case; None: any
    readers: frozenset[str] = frozenset()  # the caller's identities that a reader list of a resource names
    inject: bool = True
    denied: frozenset[str] = frozenset()  # ids of tools that agent, key or session forbid
