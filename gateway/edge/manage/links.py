"""`/links`: the state of a workspace's external links, and fetching one now."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
from pydantic import AwareDatetime, BaseModel, Field

from gateway.control.links import LinkInfo, Links
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply
from gateway.edge.manage.paging import ListQuery, Page, paginate
from gateway.edge.manage.routes import ApiRoute
from gateway.edge.manage.views import to_datetime
from gateway.errors import InvalidObject, NotFound
from gateway.links.record import LinkStatus

TAG = "links"


class LinkState(BaseModel):
    """The state of an external link."""

    fetched_at: datetime | None
    size: int | None
    error: str | None
    age: float | None = Field(description="Seconds since the copy in use was fetched or confirmed.")
    failures: int = Field(description="Consecutive failed attempts.")


class ExternalLinkView(BaseModel):
    """An external link and its last good copy."""

    url: str
    fetched_at: AwareDatetime | None = Field(description="When the server last confirmed the copy; null: no copy yet.")
    tried_at: AwareDatetime | None
    size: int | None = Field(description="Bytes of text.")
    age: float | None = Field(description="Seconds since the copy in use was fetched or confirmed.")
    error: str | None = Field(description="Why the latest attempt failed, if it did.")
    failures: int = Field(description="Consecutive failed attempts.")
    due_at: AwareDatetime | None = Field(description="When it is fetched next.")
    used_by: list[str] = Field(description="The resources that use it, as `context/resource`.")


class ExternalLinkPage(Page[ExternalLinkView]):
    """A page of the list of external links."""


class LinkRoutes(msgspec.Struct, frozen=True):
    """The external links of a workspace."""

    links: Links

    def list_routes(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/links",
            handler=self.list,
            role=Role.EDITOR,
            tag=TAG,
            summary="List the external links that the policies of the workspace use, with their state",
            query=ListQuery,
            responses={200: ExternalLinkPage},
        )
        yield ApiRoute(
            method="POST",
            path="/contexts/{context}/resources/{resource}/refresh",
            handler=self.refresh,
            role=Role.EDITOR,
            tag=TAG,
            summary="Fetch the page of an external link now; a new text is in use when this returns",
            responses={200: ExternalLinkView},
            errors=(NotFound, InvalidObject),
        )

    async def list(self, call: ApiCall[ListQuery, None]) -> ApiReply:
        every = self.links.list_all(call.workspace)
        found = [one for one in every if call.query.accepts(one.status.url, *one.used_by)]
        return ApiReply(paginate(found, call.query, _build_view))

    async def refresh(self, call: ApiCall[None, None]) -> ApiReply:
        link = await self.links.refresh(call.workspace, call.path["context"], call.path["resource"])
        return ApiReply(_build_view(link))


def render_link_state(status: LinkStatus) -> dict[str, Any]:
    """The state of a link as its resource shows it, in the form of LinkState."""
    return {
        "fetched_at": to_datetime(status.fetched_at),
        "size": status.size,
        "error": status.error,
        "age": status.age,
        "failures": status.failures,
    }


def _build_view(link: LinkInfo) -> ExternalLinkView:
    status = link.status
    return ExternalLinkView(
        url=status.url,
        fetched_at=to_datetime(status.fetched_at),
        tried_at=to_datetime(status.tried_at),
        size=status.size,
        age=status.age,
        error=status.error,
        failures=status.failures,
        due_at=to_datetime(status.due_at),
        used_by=list(link.used_by),
    )
