"""External links: how they do, who uses them, and asking for one now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.control.contexts import Contexts
from gateway.domain.material import LinkMaterial
from gateway.errors import FieldError, InvalidObject
from gateway.links.record import LinkStatus


class Cache(Protocol):
    """Keeps the copies of pages."""

    def status(self, url: str) -> LinkStatus | None:
        """How a link does; None for one that nobody keeps."""
        ...

    async def refresh(self, url: str) -> bool:
        """Ask for the page now; whether its text is new."""
        ...


class Policies(Protocol):
    """What names the links."""

    def links(self) -> Mapping[str, Sequence[tuple[str, str, LinkMaterial]]]:
        """By URL, each with the workspaces ("": all) and resources that use it."""
        ...

    async def reload(self) -> bool:
        """Put new texts in use."""
        ...


@dataclass(frozen=True, slots=True)
class Tracked:
    """A link of a workspace."""

    status: LinkStatus
    used_by: tuple[str, ...]  # resources, as `context/resource`


class Links:
    """The links of every workspace."""

    def __init__(self, policies: Policies, cache: Cache, contexts: Contexts) -> None:
        self._policies, self._cache, self._contexts = policies, cache, contexts

    def of(self, workspace: str) -> list[Tracked]:
        """All links of a workspace by URL."""
        found = []
        for url, uses in self._policies.links().items():
            used_by = tuple(sorted(resource for where, resource, _ in uses if where in ("", workspace)))
            if used_by and (status := self._cache.status(url)) is not None:
                found.append(Tracked(status, used_by))
        return sorted(found, key=lambda one: one.status.url)

    async def refresh(self, workspace: str, context: str, resource: str) -> Tracked:
        """Ask for the page of a resource now; a new text is in use when it returns.

        A server that does not answer is no error here: the status tells. Raises NotFound, and Invalid for a resource
        that is no link.
        """
        owner, _ = self._contexts.resource(workspace, context, resource)
        tracked = self._used_by(workspace, f"{owner.alias}/{resource}")
        if tracked is None:
            message = f"{owner.alias}/{resource} is not an external link"
            raise InvalidObject(f"{message}: there is nothing to refresh.", [FieldError("", message)])
        if await self._cache.refresh(tracked.status.url):
            await self._policies.reload()
        return self._used_by(workspace, f"{owner.alias}/{resource}") or tracked

    def _used_by(self, workspace: str, resource: str) -> Tracked | None:
        return next((one for one in self.of(workspace) if resource in one.used_by), None)
