"""External links: their status, the resources that use them, and refreshing one now."""

import msgspec

from gateway.control.contexts import Contexts
from gateway.errors import FieldError, InvalidObject
from gateway.links.cache import LinkCache
from gateway.links.record import LinkStatus
from gateway.policies.repository import PolicyRepository


class LinkInfo(msgspec.Struct, frozen=True):
    """An external link of a workspace."""

    status: LinkStatus
    used_by: tuple[str, ...]  # resources, as `context/resource`


class Links:
    """The external links of every workspace."""

    def __init__(self, policies: PolicyRepository, cache: LinkCache, contexts: Contexts) -> None:
        self._policies, self._cache, self._contexts = policies, cache, contexts

    def list_all(self, workspace: str) -> list[LinkInfo]:
        """All links of a workspace by URL."""
        links = []
        for url, uses in self._policies.links().items():
            used_by = tuple(sorted(use.resource for use in uses if use.workspace in ("", workspace)))
            if used_by and (status := self._cache.find_status(url)) is not None:
                links.append(LinkInfo(status, used_by))
        return sorted(links, key=lambda one: one.status.url)

    async def refresh(self, workspace: str, context: str, resource: str) -> LinkInfo:
        """Fetch the page of a resource now; a new text is in use on return.

        A server that does not answer is no error here: the status shows it. Raises NotFound, and InvalidObject for a
        resource that is not an external link.
        """
        owner, _ = self._contexts.resource(workspace, context, resource)
        name = f"{owner.alias}/{resource}"
        link = self._find(workspace, name)
        if link is None:
            message = f"{name} is not an external link"
            raise InvalidObject(f"{message}: there is nothing to refresh.", [FieldError("", message)])
        url = link.status.url
        if await self._cache.refresh(url, workspace):
            await self._policies.update_links({url}, workspace)
        return self._find(workspace, name) or link

    def _find(self, workspace: str, resource: str) -> LinkInfo | None:
        return next((one for one in self.list_all(workspace) if resource in one.used_by), None)
