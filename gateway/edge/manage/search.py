"""`/search`: finds objects by the words in them."""

import asyncio
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal, Protocol

from pydantic import BaseModel, Field

from gateway.control.search import KINDS, PageSlice, search
from gateway.domain.principal import Role
from gateway.domain.snapshot import Snapshot
from gateway.edge.manage.calls import ApiCall, ApiReply, ok
from gateway.edge.manage.routes import ApiRoute, Paging

Kind = Literal["contexts", "resources", "profiles", "agents", "prompts", "content"]


class Policies(Protocol):
    """What a workspace has."""

    def of(self, workspace: str) -> Snapshot:
        """What is served; raises Unavailable."""
        ...


class SearchQuery(Paging):
    """What is looked for."""

    q: str = Field(min_length=1, max_length=400, description="Every word of it has to be there.")
    kind: Kind | None = Field(None, description="Only things of this kind.")


class HitView(BaseModel):
    """Something that was found."""

    kind: Kind
    id: str
    name: str
    snippet: str
    score: float = Field(ge=0, le=1)


class HitPage(BaseModel):
    """A part of what was found, best first."""

    items: list[HitView]
    total: int


@dataclass(frozen=True, slots=True)
class Search:
    """The search of an editor, in what is served now."""

    policies: Policies

    def routes(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/search",
            handler=self.search,
            role=Role.EDITOR,
            tag="search",
            summary="Find objects by their words",
            query=SearchQuery,
            responses={200: HitPage},
        )

    async def search(self, call: ApiCall[SearchQuery, None]) -> ApiReply:
        wish = call.query
        kinds = KINDS if wish.kind is None else (wish.kind,)
        part = PageSlice(wish.skip, wish.take)
        found, total = await asyncio.to_thread(search, wish.q, self.policies.of(call.workspace), kinds, part)
        return ok(HitPage(items=[HitView(**asdict(hit)) for hit in found], total=total))
