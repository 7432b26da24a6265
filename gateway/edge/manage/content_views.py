"""The models of content nodes in requests and replies."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from gateway.control.tree_view import TreeNode, TreeView
from gateway.domain.content import LINK, Backlink, NodeActivity, NodeContent, NodeLink
from gateway.domain.node import Node
from gateway.edge.manage.paging import Page
from gateway.edge.manage.views import IgnoredMetadata, to_datetime
from gateway.policies.shapes import MAX_NODE_NAME, MAX_ORDER, MAX_PROPERTIES, MAX_TITLE

Inherit = Literal["merge", "nearest"]
Word = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NODE_NAME)]
Key = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_.][a-z0-9_.-]{0,63}$")]
Alias = Annotated[str, StringConstraints(min_length=1, max_length=64)]

NODE_FIELDS = frozenset(
    {
        *("id", "key", "parent", "title", "type", "order", "body", "properties"),
        *("contexts", "inherit", "readers", "links"),
    }
)
MAX_LINKS = 1000


class TypedLink(BaseModel):
    """A link with a type of its own."""

    model_config = ConfigDict(extra="forbid")

    to: Word = Field(description="Id or path of the node.")
    type: Word = "link"


WrittenLink = Word | TypedLink


class NodeBody(IgnoredMetadata, BaseModel):
    """A node. Without key and parent it stays where it is; a parent of null makes it a root."""

    model_config = ConfigDict(extra="forbid")

    id: Word | None = Field(None, description="Generated if absent; it never changes.")
    key: Key | None = Field(None, description="The last segment of its path.")
    parent: Word | None = Field(None, description="Id or path of the parent.")
    title: Annotated[str, StringConstraints(min_length=1, max_length=MAX_TITLE)] | None = None
    type: Word = "page"
    order: int = Field(0, ge=-MAX_ORDER, le=MAX_ORDER, description="Place among its siblings; the lowest comes first.")
    body: str = ""
    properties: dict[Word, Any] = Field({}, max_length=MAX_PROPERTIES, description="Plain JSON values by name.")
    contexts: list[Alias] = []
    inherit: Inherit = "nearest"
    readers: list[Word] = []
    links: list[WrittenLink] = Field([], max_length=MAX_LINKS)
    path: Any = None  # in replies, so it may be sent back
    created_by: Any = None
    children: Any = None

    def to_data(self) -> dict[str, Any]:
        """The fields that were sent: an absent one differs from null."""
        return self.model_dump(include=set(NODE_FIELDS), exclude_unset=True)


class NewNode(NodeBody):
    """A node to be created."""

    key: Key


class NodeView(BaseModel):
    """A node of the content tree."""

    id: str
    key: str
    path: str
    parent: str | None = Field(description="The parent's id; null for a root.")
    title: str
    type: str
    order: int
    body: str
    properties: dict[str, Any]
    contexts: list[str]
    inherit: Inherit
    readers: list[str]
    links: list[str | TypedLink]
    children: int = Field(description="Number of its direct children.")
    source: Literal["store", "file"]
    file: str | None = Field(None, description="File and line of a node from a policy file.")
    version: int = Field(description="0 for a node from a file.")
    created_at: datetime | None = None
    created_by: str | None = None
    updated_at: datetime | None = None
    updated_by: str | None = None


class NodePage(Page[NodeView]):
    """A page of the list of nodes."""


class NodeOutline(BaseModel):
    """A node in the tree, without its text."""

    id: str
    key: str
    path: str
    title: str
    type: str
    contexts: list[str]
    inherit: Inherit
    source: Literal["store", "file"]
    children: "list[NodeOutline]"
    more: int = Field(0, description="Number of direct children that are not shown.")


class OutlineTree(BaseModel):
    """The tree, or a branch of it."""

    items: list[NodeOutline]
    total: int = Field(description="Number of nodes in the whole tree or branch.")


class EffectiveContext(BaseModel):
    """A context that applies to a node."""

    context: str
    name: str
    level: Literal["content"] = "content"
    entity: str = Field(description="Path of the node that assigns it.")
    inherited: bool


class NodeContexts(BaseModel):
    """The contexts of a node."""

    assigned: list[str]
    inherit: Inherit
    effective: list[EffectiveContext] = Field(description="From broad to narrow.")
    inherited_from: str | None = Field(description="Path of the nearest ancestor that contributes.")


class NodeContextsBody(BaseModel):
    """Contexts to assign to a node: several, or one."""

    model_config = ConfigDict(extra="forbid")

    contexts: list[Alias] | None = None
    context: Alias | None = None
    inherit: Inherit | None = None

    @model_validator(mode="after")
    def _require_one_of_two(self) -> "NodeContextsBody":
        if (self.contexts is None) == (self.context is None):
            raise ValueError("give either contexts or context")
        return self

    def list_contexts(self) -> list[str]:
        return [self.context] if self.context is not None else self.contexts or []


class LinkedNode(BaseModel):
    """A node at the other end of a link."""

    link: str = Field(description="As written in the node.")
    type: str
    id: str | None = Field(None, description="Null for a broken link.")
    path: str | None = None
    title: str | None = None


class NodeMove(BaseModel):
    """Where a node goes; what is absent stays."""

    model_config = ConfigDict(extra="forbid")

    key: Key | None = None
    parent: Word | None = Field(None, description="Id or path of the new parent; null makes it a root.")
    order: int | None = Field(None, ge=-MAX_ORDER, le=MAX_ORDER, description="Place among its siblings.")

    def to_data(self) -> dict[str, Any]:
        """The fields that were sent: an absent parent differs from null."""
        sent = self.model_dump(exclude_unset=True)
        return {name: value for name, value in sent.items() if name == "parent" or value is not None}


class NodeActivityBody(BaseModel):
    """What a user did with a node."""

    model_config = ConfigDict(extra="forbid")

    user: Word | None = Field(None, description="Who; the caller itself if absent.")
    kind: Literal["view", "edit"] = "view"


class ActivityView(BaseModel):
    """What a user did with a node last."""

    node: str
    path: str
    title: str
    kind: Literal["view", "edit"]
    at: datetime | None


class ActivityList(BaseModel):
    """What a user did, the latest first."""

    items: list[ActivityView]


class NodeLinks(BaseModel):
    """The links of a node in both directions."""

    links: list[LinkedNode]
    backlinks: list[LinkedNode]


def build_node_view(one: TreeNode, content: NodeContent) -> NodeView:
    node, record = one.node, one.entry.record
    return NodeView(
        id=node.id,
        key=one.entry.data["key"],
        path=node.path,
        parent=one.parent,
        title=node.title,
        type=node.type,
        order=node.order,
        body=content.body,
        properties=dict(content.properties),
        contexts=list(node.contexts),
        inherit="merge" if node.merge else "nearest",
        readers=list(node.readers),
        links=[_build_written_link(link) for link in content.links],
        children=one.children,
        source="file" if record is None else "store",
        file=one.object.file,
        version=one.object.version,
        created_at=to_datetime(one.object.created),
        created_by=content.created_by,
        updated_at=None if record is None else to_datetime(record.at),
        updated_by=None if record is None else record.by,
    )


def build_node_tree(tree: TreeView, name: str | None, depth: int) -> OutlineTree:
    """The tree, or the branch whose root is the named node, down to a depth."""
    start = None if name is None else tree.find(name).node
    within = "" if start is None else start.path
    top = 1 if start is None else start.path.count("/") + 1
    outlines: dict[str, NodeOutline] = {}
    roots: list[NodeOutline] = []
    every = [one for one in tree.list_all() if start is None or f"{one.node.path}/".startswith(f"{within}/")]
    for one in every:
        level = one.node.path.count("/") + 1 - top
        if level >= depth:
            continue
        outline = outlines[one.node.path] = _build_outline(one, is_leaf=level + 1 == depth)
        parent = outlines.get(one.node.parent or "")
        (roots if parent is None else parent.children).append(outline)
    return OutlineTree(items=roots, total=len(every))


def _build_outline(one: TreeNode, *, is_leaf: bool) -> NodeOutline:
    node = one.node
    return NodeOutline(
        id=node.id,
        key=one.entry.data["key"],
        path=node.path,
        title=node.title,
        type=node.type,
        contexts=list(node.contexts),
        inherit="merge" if node.merge else "nearest",
        source="file" if one.entry.record is None else "store",
        children=[],
        more=one.children if is_leaf else 0,
    )


def build_node_contexts(tree: TreeView, one: TreeNode) -> NodeContexts:
    effective = tree.list_effective_contexts(one.node)
    above = [found.entity for found in effective if found.entity != one.node.path]
    return NodeContexts(
        assigned=list(one.node.contexts),
        inherit="merge" if one.node.merge else "nearest",
        effective=[
            EffectiveContext(
                context=found.context,
                name=tree.snapshot.contexts[found.context].name,
                entity=found.entity,
                inherited=found.entity != one.node.path,
            )
            for found in effective
        ],
        inherited_from=above[-1] if above else None,
    )


def build_node_links(tree: TreeView, content: NodeContent, backlinks: Sequence[Backlink]) -> NodeLinks:
    return NodeLinks(
        links=[_build_link(link.target, link.type, tree.nodes.find(link.target)) for link in content.links],
        backlinks=[_build_link(one.source, one.type, tree.nodes.get(one.source)) for one in backlinks],
    )


def _build_link(written: str, type: str, node: Node | None) -> LinkedNode:
    if node is None:
        return LinkedNode(link=written, type=type)
    return LinkedNode(link=written, type=type, id=node.id, path=node.path, title=node.title)


def _build_written_link(link: NodeLink) -> str | TypedLink:
    return link.target if link.type == LINK else TypedLink(to=link.target, type=link.type)


def build_activity(tree: TreeView, found: Sequence[NodeActivity]) -> ActivityList:
    """What a user did, with the nodes that still exist."""
    nodes = [(one, tree.nodes.get(one.node)) for one in found]
    return ActivityList(
        items=[
            ActivityView(node=node.id, path=node.path, title=node.title, kind=one.kind, at=to_datetime(one.at))
            for one, node in nodes
            if node is not None
        ]
    )
