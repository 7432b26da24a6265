"""`/search`: finds objects by the words in them."""

from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec.structs import asdict
from pydantic import BaseModel, Field

from gateway.control.search import KINDS, PageSlice, search
from gateway.domain.principal import Role
from gateway.domain.snapshot import Snapshot
from gateway.edge.manage.calls import ApiCall, ApiReply
from gateway.edge.manage.paging import Page, Paging, build_page
from gateway.edge.manage.routes import ApiRoute
from gateway.fair_queue import FairThreads
from gateway.policies.node_records import read_content
from gateway.policies.repository import PolicyRepository

SEARCHED_TEXTS = 2_000  # stored nodes whose texts are searched

Kind = Literal["contexts", "resources", "profiles", "agents", "prompts", "recipes", "content"]


class SearchQuery(Paging):
    """What to search for."""

    q: str = Field(min_length=1, max_length=400, description="All of its words must occur.")
    kind: Kind | None = Field(None, description="Only objects of this kind.")


class HitView(BaseModel):
    """An object that was found."""

    kind: Kind
    id: str
    name: str
    snippet: str
    score: float = Field(ge=0, le=1)


class HitPage(Page[HitView]):
    """A page of what was found, best first."""


class SearchRoutes(msgspec.Struct, frozen=True):
    """The search of an editor in the policies in use."""

    policies: PolicyRepository
    threads: FairThreads

    def list_routes(self) -> Iterator[ApiRoute]:
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
        query = call.query
        kinds = KINDS if query.kind is None else (query.kind,)
        part = PageSlice(query.skip, query.take)
        snapshot = self.policies.get_snapshot(call.workspace)
        texts = await self._read_texts(call.workspace, snapshot) if "content" in kinds else {}
        hits, total = await self.threads.run(call.workspace, search, query.q, snapshot, kinds, part, texts)
        return ApiReply(build_page([HitView(**asdict(hit)) for hit in hits], total))

    async def _read_texts(self, workspace: str, snapshot: Snapshot) -> dict[str, str]:
        """What stored nodes say; of large trees only titles and paths are searched."""
        stored = [id for id in snapshot.tree.ids if id not in snapshot.contents]
        if not 0 < len(stored) <= SEARCHED_TEXTS:
            return {}
        records = await self.policies.read_nodes(workspace, stored)
        return {id: read_content(record).body for id, record in records.items()}
