"""`/content`: the nodes of the content tree, by id or by path."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from pydantic import Field

from gateway.control.base import Object
from gateway.control.content import Content
from gateway.control.services import Services
from gateway.control.tree import TreeNode, TreeView
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply, created, found, no_content, ok
from gateway.edge.manage.collection import WRITES
from gateway.edge.manage.content_views import (
    Branch,
    ContextsOf,
    ContextsWish,
    LinksOf,
    NewNode,
    NodePage,
    NodeView,
    NodeWish,
    contexts_of,
    links_of,
    outline,
    view,
)
from gateway.edge.manage.routes import ApiRoute, ListQuery, Query, RouteGroup
from gateway.edge.manage.versions import Histories
from gateway.errors import Conflict, InsufficientStorage, NotFound

NODE = "/content/{node...}"


class TreeQuery(Query):
    """Which part of the tree is wanted."""

    node: str | None = Field(None, max_length=512, description="Id or path of where to begin.")
    depth: int = Field(64, ge=1, le=64, description="How many levels to show.")


class Deletion(Query):
    """How much goes."""

    recursive: bool = Field(False, description="Delete what stands below it, too.")


@dataclass(frozen=True, slots=True)
class ContentNoun:
    """Nodes as resources of the API. A node of a policy file can only be read."""

    content: Content

    def routes(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/content",
            handler=self.list,
            role=Role.EDITOR,
            tag="content",
            summary="List nodes in the order of their paths",
            query=ListQuery,
            responses={200: NodePage},
        )
        yield ApiRoute(
            method="GET",
            path="/content/tree",
            handler=self.tree,
            role=Role.EDITOR,
            tag="content",
            summary="The tree, or a branch of it",
            query=TreeQuery,
            responses={200: Branch},
            errors=(NotFound,),
        )
        yield ApiRoute(
            method="POST",
            path="/content",
            handler=self.create,
            role=Role.EDITOR,
            tag="content",
            summary="Add a node",
            body=NewNode,
            responses={201: NodeView},
            errors=(Conflict, InsufficientStorage),
        )
        yield from self._one()
        yield from self._contexts()

    def _one(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path=NODE,
            handler=self.get,
            role=Role.EDITOR,
            tag="content",
            summary="One node by its id or path",
            responses={200: NodeView},
            errors=(NotFound,),
            conditional=True,
        )
        yield ApiRoute(
            method="PUT",
            path=NODE,
            handler=self.replace,
            role=Role.EDITOR,
            tag="content",
            summary="Replace a node; another key or parent moves it, with everything below",
            body=NodeWish,
            responses={200: NodeView},
            errors=WRITES,
            conditional=True,
        )
        yield ApiRoute(
            method="DELETE",
            path=NODE,
            handler=self.delete,
            role=Role.EDITOR,
            tag="content",
            summary="Delete a node",
            query=Deletion,
            responses={204: None},
            errors=WRITES,
            conditional=True,
        )

    def _contexts(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path=f"{NODE}/context",
            handler=self.contexts,
            role=Role.EDITOR,
            tag="content",
            summary="The contexts of a node: assigned to it, and in effect",
            responses={200: ContextsOf},
            errors=(NotFound,),
        )
        yield ApiRoute(
            method="PUT",
            path=f"{NODE}/context",
            handler=self.assign,
            role=Role.EDITOR,
            tag="content",
            summary="Assign contexts to a node",
            body=ContextsWish,
            responses={200: ContextsOf},
            errors=WRITES,
            conditional=True,
        )
        yield ApiRoute(
            method="DELETE",
            path=f"{NODE}/context",
            handler=self.unassign,
            role=Role.EDITOR,
            tag="content",
            summary="Take a node's own contexts away",
            responses={204: None},
            errors=WRITES,
            conditional=True,
        )
        yield ApiRoute(
            method="GET",
            path=f"{NODE}/links",
            handler=self.links,
            role=Role.EDITOR,
            tag="content",
            summary="The nodes that a node links to, and those that link to it",
            responses={200: LinksOf},
            errors=(NotFound,),
        )

    async def list(self, call: ApiCall[ListQuery, None]) -> ApiReply:
        return ok(await asyncio.to_thread(_page, self.content.tree(call.workspace), call.query))

    async def tree(self, call: ApiCall[TreeQuery, None]) -> ApiReply:
        return ok(
            await asyncio.to_thread(outline, self.content.tree(call.workspace), call.query.node, call.query.depth)
        )

    async def create(self, call: ApiCall[None, NewNode]) -> ApiReply:
        made = await self.content.create(call.principal, call.body.said())
        return created(f"/content/{quote(made.node.id, safe='')}", view(made), made.object.tag)

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        one = self._find(call)
        return found(call, view(one), one.object.tag)

    async def replace(self, call: ApiCall[None, NodeWish]) -> ApiReply:
        one = await self.content.replace(call.principal, call.path["node"], call.body.said(), call.if_match)
        return ok(view(one), one.object.tag)

    async def delete(self, call: ApiCall[Deletion, None]) -> ApiReply:
        recursive, tags = call.query.recursive, call.if_match
        await self.content.delete(call.principal, call.path["node"], recursive=recursive, tags=tags)
        return no_content()

    async def contexts(self, call: ApiCall[None, None]) -> ApiReply:
        return ok(contexts_of(self.content.tree(call.workspace), self._find(call)))

    async def assign(self, call: ApiCall[None, ContextsWish]) -> ApiReply:
        wish = call.body
        one = await self.content.assign(call.principal, call.path["node"], wish.said(), wish.inherit, call.if_match)
        return ok(contexts_of(self.content.tree(call.workspace), one), one.object.tag)

    async def unassign(self, call: ApiCall[None, None]) -> ApiReply:
        await self.content.assign(call.principal, call.path["node"], (), "nearest", call.if_match)
        return no_content()

    async def links(self, call: ApiCall[None, None]) -> ApiReply:
        return ok(links_of(self.content.tree(call.workspace), self._find(call)))

    def _find(self, call: ApiCall[None, None]) -> TreeNode:
        return self.content.tree(call.workspace).find(call.path["node"])


def content(services: Services, nodes: Content) -> tuple[RouteGroup, ...]:
    """Everything below `/content`."""

    def show(workspace: str, one: Object) -> NodeView:
        return view(nodes.tree(workspace).find(one.alias))

    return ContentNoun(nodes), Histories(nodes.kind, NodeView, services.versions(nodes), show, spans=True)


def _page(tree: TreeView, wish: ListQuery) -> NodePage:
    word = wish.filter.casefold()
    fitting = [one for one in tree.every() if word in one.node.path.casefold() or word in one.node.title.casefold()]
    return NodePage(items=[view(one) for one in fitting[wish.skip :][: wish.take]], total=len(fitting))
