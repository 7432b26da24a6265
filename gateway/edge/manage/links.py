"""`/links`: how the external links of a workspace do, and asking for one now."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import AwareDatetime, BaseModel, Field

from gateway.control.links import Cache, Links, Tracked
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply, ok
from gateway.edge.manage.routes import ApiRoute, ListQuery
from gateway.errors import InvalidObject, NotFound

TAG = "links"


class TrackedView(BaseModel):
    """An external link and its last good copy."""

    url: str
    fetched_at: AwareDatetime | None = Field(description="When the server last confirmed the copy; null: none yet.")
    tried_at: AwareDatetime | None
    size: int | None = Field(description="Bytes of text.")
    age: float | None = Field(description="Seconds since the copy in use was fetched or confirmed.")
    error: str | None = Field(description="Why the latest attempt failed, if it did.")
    failures: int = Field(description="Attempts that failed in a row.")
    due_at: AwareDatetime | None = Field(description="When it is asked for next.")
    used_by: list[str] = Field(description="The resources that use it, as `context/resource`.")


class TrackedPage(BaseModel):
    """A part of the list of links."""

    items: list[TrackedView]
    total: int


@dataclass(frozen=True, slots=True)
class LinkNoun:
    """External links as the API shows them."""

    links: Links

    def routes(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/links",
            handler=self.list,
            role=Role.EDITOR,
            tag=TAG,
            summary="List the external links that the policies of the workspace use, with their state",
            query=ListQuery,
            responses={200: TrackedPage},
        )
        yield ApiRoute(
            method="POST",
            path="/contexts/{context}/resources/{resource}/refresh",
            handler=self.refresh,
            role=Role.EDITOR,
            tag=TAG,
            summary="Ask for the page of an external link now; a new text is in use when this answers",
            responses={200: TrackedView},
            errors=(NotFound, InvalidObject),
        )

    async def list(self, call: ApiCall[ListQuery, None]) -> ApiReply:
        found = [one for one in self.links.of(call.workspace) if _fits(one, call.query.filter.lower())]
        page = found[call.query.skip :][: call.query.take]
        return ok(TrackedPage(items=[_view(one) for one in page], total=len(found)))

    async def refresh(self, call: ApiCall[None, None]) -> ApiReply:
        return ok(_view(await self.links.refresh(call.workspace, call.path["context"], call.path["resource"])))


@dataclass(frozen=True, slots=True)
class LinkTold:
    """The state of a link as it is told with its resource."""

    cache: Cache

    def __call__(self, url: str) -> dict[str, Any] | None:
        status = self.cache.status(url)
        if status is None:
            return None
        told = {name: getattr(status, name) for name in ("size", "error", "age", "failures")}
        return {"fetched_at": _moment(status.fetched_at), **told}


def _fits(tracked: Tracked, word: str) -> bool:
    return any(word in text.lower() for text in (tracked.status.url, *tracked.used_by))


def _view(tracked: Tracked) -> TrackedView:
    status = tracked.status
    return TrackedView(
        url=status.url,
        fetched_at=_moment(status.fetched_at),
        tried_at=_moment(status.tried_at),
        size=status.size,
        age=status.age,
        error=status.error,
        failures=status.failures,
        due_at=_moment(status.due_at),
        used_by=list(tracked.used_by),
    )


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
