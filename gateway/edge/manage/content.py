"""`/content`: the nodes of the content tree, by id or by path."""

from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
from pydantic import Field

from gateway.control.content import Content
from gateway.control.objects import PolicyObject
from gateway.control.services import ControlServices
from gateway.control.tree_view import TreeNode, TreeView
from gateway.domain.content import ActivityKind
from gateway.domain.principal import Role
from gateway.edge.manage.calls import (
    ApiCall,
    ApiReply,
    allow_replacing,
    reply_created,
    reply_empty,
    reply_if_changed,
)
from gateway.edge.manage.content_views import (
    ActivityList,
    NewNode,
    NodeActivityBody,
    NodeBody,
    NodeContexts,
    NodeContextsBody,
    NodeLinks,
    NodeMove,
    NodePage,
    NodeView,
    OutlineTree,
    build_activity,
    build_node_contexts,
    build_node_links,
    build_node_tree,
    build_node_view,
)
from gateway.edge.manage.paging import ListQuery, QueryParameters, build_page
from gateway.edge.manage.routes import WRITE_ERRORS, ApiRoute, RouteGroup
from gateway.edge.manage.versions import VersionRoutes
from gateway.errors import Conflict, InsufficientStorage, NotFound
from gateway.fair_queue import FairThreads
from gateway.policies.shapes import Moment

NODE = "/content/{node:path}"
MAX_BACKLINKS = 1000


class TreeQuery(QueryParameters):
    """Which part of the tree to return."""

    node: str | None = Field(None, max_length=512, description="Id or path of the node to start at.")
    depth: int = Field(64, ge=1, le=64, description="How many levels to return.")


class ActivityQuery(QueryParameters):
    """Whose activity, and how much of it."""

    user: str | None = Field(None, max_length=512, description="The caller itself if absent.")
    since: Moment | None = Field(None, description="Nothing before this moment.")
    take: int = Field(50, ge=1, le=500)


class DeleteNodeQuery(QueryParameters):
    """How much to delete."""

    recursive: bool = Field(False, description="Delete the nodes below it, too.")


class ContentRoutes(msgspec.Struct, frozen=True):
    """The nodes of the content tree. A node from a policy file is read-only."""

    content: Content
    threads: FairThreads

    def list_routes(self) -> Iterator[ApiRoute]:
        route = partial(ApiRoute, role=Role.EDITOR, tag="content")
        yield route(
            method="GET",
            path="/content",
            handler=self.list,
            summary="List the nodes by path",
            query=ListQuery,
            responses={200: NodePage},
        )
        yield route(
            method="GET",
            path="/content/tree",
            handler=self.get_tree,
            summary="Get the tree, or a branch of it",
            query=TreeQuery,
            responses={200: OutlineTree},
            errors=(NotFound,),
        )
        yield route(
            method="POST",
            path="/content",
            handler=self.create,
            summary="Create a node",
            body=NewNode,
            responses={201: NodeView},
            errors=(Conflict, InsufficientStorage),
        )
        yield route(
            method="GET",
            path="/activity",
            handler=self.list_activity,
            summary="List what a user did with nodes, the latest first",
            query=ActivityQuery,
            responses={200: ActivityList},
        )
        yield from self._list_node_routes()
        yield from self._list_assignment_routes()

    def _list_node_routes(self) -> Iterator[ApiRoute]:
        route = partial(ApiRoute, role=Role.EDITOR, tag="content")
        write = partial(route, errors=WRITE_ERRORS, conditional=True)
        yield route(
            method="GET",
            path=NODE,
            handler=self.get,
            summary="Get a node by id or path",
            responses={200: NodeView},
            errors=(NotFound,),
            conditional=True,
        )
        yield write(
            method="PUT",
            path=NODE,
            handler=self.replace,
            summary="Replace a node; another key or parent moves it with everything below",
            body=NodeBody,
            responses={200: NodeView},
        )
        yield write(
            method="DELETE",
            path=NODE,
            handler=self.delete,
            summary="Delete a node",
            query=DeleteNodeQuery,
            responses={204: None},
        )

    def _list_assignment_routes(self) -> Iterator[ApiRoute]:
        route = partial(ApiRoute, role=Role.EDITOR, tag="content")
        write = partial(route, errors=WRITE_ERRORS, conditional=True)
        yield route(
            method="GET",
            path=f"{NODE}/context",
            handler=self.get_contexts,
            summary="Get the contexts of a node: assigned and effective",
            responses={200: NodeContexts},
            errors=(NotFound,),
        )
        yield write(
            method="PUT",
            path=f"{NODE}/context",
            handler=self.assign,
            summary="Assign contexts to a node",
            body=NodeContextsBody,
            responses={200: NodeContexts},
        )
        yield write(
            method="DELETE",
            path=f"{NODE}/context",
            handler=self.unassign,
            summary="Remove the contexts assigned to a node",
            responses={204: None},
        )
        yield write(
            method="POST",
            path=f"{NODE}/move",
            handler=self.move,
            summary="Give a node another parent, key or order; what it says stays as it is",
            body=NodeMove,
            responses={200: NodeView},
        )
        yield route(
            method="POST",
            path=f"{NODE}/activity",
            handler=self.note_activity,
            summary="Note that a user viewed or edited a node",
            body=NodeActivityBody,
            responses={204: None},
            errors=(NotFound,),
        )
        yield route(
            method="GET",
            path=f"{NODE}/links",
            handler=self.get_links,
            summary="Get the nodes that a node links to, and those that link to it",
            responses={200: NodeLinks},
            errors=(NotFound,),
        )

    async def list(self, call: ApiCall[ListQuery, None]) -> ApiReply:
        tree = self.content.tree(call.workspace)
        found, total = await self.threads.run(call.workspace, _find_nodes, tree, call.query)
        found = found[: self.content.count_readable(call.workspace, found)]
        contents = await self.content.read(call.workspace, found)
        return ApiReply(build_page([build_node_view(one, contents[one.node.id]) for one in found], total))

    async def get_tree(self, call: ApiCall[TreeQuery, None]) -> ApiReply:
        tree, query = self.content.tree(call.workspace), call.query
        return ApiReply(await self.threads.run(call.workspace, build_node_tree, tree, query.node, query.depth))

    async def create(self, call: ApiCall[None, NewNode]) -> ApiReply:
        one = await self.content.create(call.principal, call.body.to_data())
        view = await self._render(call.workspace, one)
        return reply_created(f"/content/{quote(one.node.id, safe='')}", view, one.object.tag)

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        one = self._get_node(call)
        return reply_if_changed(call, await self._render(call.workspace, one), one.object.tag)

    async def replace(self, call: ApiCall[None, NodeBody]) -> ApiReply:
        allow_replacing(call, f"content/{self._get_node(call).node.id}")
        one = await self.content.replace(call.principal, call.path["node"], call.body.to_data(), call.if_match)
        return ApiReply(await self._render(call.workspace, one), etag=one.object.tag)

    async def move(self, call: ApiCall[None, NodeMove]) -> ApiReply:
        one = await self.content.move(call.principal, call.path["node"], call.body.to_data(), call.if_match)
        return ApiReply(await self._render(call.workspace, one), etag=one.object.tag)

    async def delete(self, call: ApiCall[DeleteNodeQuery, None]) -> ApiReply:
        recursive, tags = call.query.recursive, call.if_match
        await self.content.delete(call.principal, call.path["node"], recursive=recursive, tags=tags)
        return reply_empty()

    async def get_contexts(self, call: ApiCall[None, None]) -> ApiReply:
        return ApiReply(build_node_contexts(self.content.tree(call.workspace), self._get_node(call)))

    async def assign(self, call: ApiCall[None, NodeContextsBody]) -> ApiReply:
        name, contexts, inherit = call.path["node"], call.body.list_contexts(), call.body.inherit
        one = await self.content.assign(call.principal, name, contexts, inherit, call.if_match)
        return ApiReply(build_node_contexts(self.content.tree(call.workspace), one), etag=one.object.tag)

    async def unassign(self, call: ApiCall[None, None]) -> ApiReply:
        await self.content.assign(call.principal, call.path["node"], (), "nearest", call.if_match)
        return reply_empty()

    async def get_links(self, call: ApiCall[None, None]) -> ApiReply:
        one = self._get_node(call)
        contents = await self.content.read(call.workspace, [one])
        backlinks = await self.content.list_backlinks(call.workspace, one, MAX_BACKLINKS)
        return ApiReply(build_node_links(self.content.tree(call.workspace), contents[one.node.id], backlinks))

    async def note_activity(self, call: ApiCall[None, NodeActivityBody]) -> ApiReply:
        user, kind = call.principal.name_actor(call.body.user), ActivityKind(call.body.kind)
        self.content.note_activity(call.workspace, user, self._get_node(call), kind)
        return reply_empty()

    async def list_activity(self, call: ApiCall[ActivityQuery, None]) -> ApiReply:
        query = call.query
        since = 0.0 if query.since is None else query.since.timestamp()
        user = call.principal.name_actor(query.user)
        found = await self.content.list_activity(call.workspace, user, since, query.take)
        return ApiReply(build_activity(self.content.tree(call.workspace), found))

    async def _render(self, workspace: str, one: TreeNode) -> NodeView:
        return build_node_view(one, (await self.content.read(workspace, [one]))[one.node.id])

    def _get_node(self, call: ApiCall[None, Any]) -> TreeNode:
        return self.content.tree(call.workspace).find(call.path["node"])


def build_content_routes(services: ControlServices, content: Content, threads: FairThreads) -> tuple[RouteGroup, ...]:
    """Everything below `/content`."""

    async def render(workspace: str, one: PolicyObject) -> NodeView:
        found = content.tree(workspace).find(one.alias)
        return build_node_view(found, (await content.read(workspace, [found]))[found.node.id])

    versions = VersionRoutes(content.kind, NODE, NodeView, services.versions(content), render)
    return ContentRoutes(content, threads), versions


def _find_nodes(tree: TreeView, query: ListQuery) -> tuple[list[TreeNode], int]:
    found = tree.list_matching(lambda node: query.accepts(node.path, node.title))
    return [tree.describe(node) for node in found[query.skip : query.skip + query.take]], len(found)
