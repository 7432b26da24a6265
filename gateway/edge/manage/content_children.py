"""`/content/children`: the children of a node page by page, for trees that are opened level by level."""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
from pydantic import BaseModel, Field

from gateway.domain.node import Node
from gateway.domain.node_tree import NodeTree
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply
from gateway.edge.manage.paging import ListQuery, Page, paginate
from gateway.edge.manage.routes import ApiRoute
from gateway.errors import NotFound
from gateway.fair_queue import FairThreads
from gateway.policies.repository import PolicyRepository

KIND = "content"


class ChildrenQuery(ListQuery):
    """Whose children; `filter` matches key, id and title."""

    node: str | None = Field(None, description="Id or path; absent: the roots.")


class ChildView(BaseModel):
    """A node as a line of the tree."""

    id: str
    key: str
    path: str
    title: str
    type: str
    contexts: list[str]
    inherit: Literal["merge", "nearest"]
    source: Literal["store", "file"]
    children: int = Field(description="Number of its direct children.")


class ChildPage(Page[ChildView]):
    """A page of children, in order."""


class ContentChildrenRoutes(msgspec.Struct, frozen=True):
    """The tree as it is served, one level at a time: each call looks at one node's children only."""

    policies: PolicyRepository
    threads: FairThreads

    def list_routes(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/content/children",
            handler=self.list,
            role=Role.EDITOR,
            tag="content",
            summary="List the children of a node, or the roots",
            query=ChildrenQuery,
            responses={200: ChildPage},
            errors=(NotFound,),
        )

    async def list(self, call: ApiCall[ChildrenQuery, None]) -> ApiReply:
        tree, query = self.policies.get_snapshot(call.workspace).tree, call.query
        parent = None if query.node is None else tree.find(query.node)
        if query.node is not None and parent is None:
            raise NotFound(f"There is no node {query.node!r}.")
        found = await self.threads.run(call.workspace, _list_children, tree, parent, query)
        adopted = self.policies.list_adopted(call.workspace)

        def build_view(node: Node) -> ChildView:
            in_file = self.policies.find_file_entry(KIND, node.id) is not None and (KIND, node.id) not in adopted
            return ChildView(
                id=node.id,
                key=node.path.rpartition("/")[2],
                path=node.path,
                title=node.title,
                type=node.type,
                contexts=[*node.contexts],
                inherit="merge" if node.merge else "nearest",
                source="file" if in_file else "store",
                children=tree.count_children(node),
            )

        return ApiReply(paginate(found, query, build_view))


def _list_children(tree: NodeTree, parent: Node | None, query: ChildrenQuery) -> Sequence[Node]:
    """A node may have a hundred thousand of them: not on the event loop."""
    every = tree.list_roots() if parent is None else tree.list_children(parent)
    if not query.filter:
        return every
    return [one for one in every if query.accepts(one.id, one.path.rpartition("/")[2], one.title)]
