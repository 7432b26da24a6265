"""How nodes are shown by the management API, and what it takes."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from gateway.control.tree import TreeNode, TreeView
from gateway.domain.node import Node
from gateway.edge.manage.views import Echo

Inherit = Literal["merge", "nearest"]
Word = Annotated[str, StringConstraints(min_length=1, max_length=512)]
Key = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_.][a-z0-9_.-]{0,63}$")]
Alias = Annotated[str, StringConstraints(min_length=1, max_length=64)]

SAID = frozenset({"id", "key", "parent", "title", "type", "body", "contexts", "inherit", "readers", "links"})


class NodeWish(Echo, BaseModel):
    """A node. Without key and parent it stays where it is; a parent of null makes it a root."""

    model_config = ConfigDict(extra="forbid")

    id: Word | None = Field(None, description="Made up if absent; it never changes.")
    key: Key | None = Field(None, description="The last segment of its path.")
    parent: Word | None = Field(None, description="Id or path of the parent.")
    title: Annotated[str, StringConstraints(min_length=1)] | None = None
    type: Word = "page"
    body: str = ""
    contexts: list[Alias] = []
    inherit: Inherit = "nearest"
    readers: list[Word] = []
    links: list[Word] = []
    path: Any = None  # told to readers, who may send it back
    children: Any = None

    def said(self) -> dict[str, Any]:
        """What was sent, so that what was not can be told from what is null."""
        return self.model_dump(include=set(SAID), exclude_unset=True)


class NewNode(NodeWish):
    """A node that does not exist yet."""

    key: Key


class NodeView(BaseModel):
    """A node of the content tree."""

    id: str
    key: str
    path: str
    parent: str | None = Field(description="The parent's id; null for a root.")
    title: str
    type: str
    body: str
    contexts: list[str]
    inherit: Inherit
    readers: list[str]
    links: list[str]
    children: int = Field(description="How many nodes stand right below it.")
    source: Literal["store", "file"]
    file: str | None = Field(None, description="The policy file that it stands in, and the line.")
    version: int = Field(description="0 for a node of a file.")
    created_at: datetime | None = None
    updated_at: datetime | None = None
    updated_by: str | None = None


class NodePage(BaseModel):
    """A part of the list of nodes."""

    items: list[NodeView]
    total: int


class Outline(BaseModel):
    """A node in the tree, without its text."""

    id: str
    key: str
    path: str
    title: str
    type: str
    contexts: list[str]
    inherit: Inherit
    source: Literal["store", "file"]
    children: "list[Outline]"
    more: int = Field(0, description="How many nodes right below it are not shown.")


class Branch(BaseModel):
    """The tree, or a branch of it."""

    items: list[Outline]
    total: int = Field(description="How many nodes the whole branch has.")


class Effective(BaseModel):
    """A context that applies to a node."""

    context: str
    name: str
    level: Literal["content"] = "content"
    entity: str = Field(description="Path of the node that assigns it.")
    inherited: bool


class ContextsOf(BaseModel):
    """The contexts of a node."""

    assigned: list[str]
    inherit: Inherit
    effective: list[Effective] = Field(description="From broad to narrow.")
    inherited_from: str | None = Field(description="Path of the nearest node above that contributes.")


class ContextsWish(BaseModel):
    """Contexts for a node: several, or one."""

    model_config = ConfigDict(extra="forbid")

    contexts: list[Alias] | None = None
    context: Alias | None = None
    inherit: Inherit | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "ContextsWish":
        if (self.contexts is None) == (self.context is None):
            raise ValueError("give either contexts or context")
        return self

    def said(self) -> list[str]:
        return [self.context] if self.context is not None else self.contexts or []


class Linked(BaseModel):
    """A node at the other end of a link."""

    link: str = Field(description="As it is written.")
    id: str | None = Field(None, description="Null for a link that leads nowhere.")
    path: str | None = None
    title: str | None = None


class LinksOf(BaseModel):
    """The links of a node in both directions."""

    links: list[Linked]
    backlinks: list[Linked]


def view(one: TreeNode) -> NodeView:
    node, record = one.node, one.entry.record
    return NodeView(
        id=node.id,
        key=one.entry.data["key"],
        path=node.path,
        parent=one.parent,
        title=node.title,
        type=node.type,
        body=node.body,
        contexts=list(node.contexts),
        inherit="merge" if node.merge else "nearest",
        readers=list(node.readers),
        links=list(node.links),
        children=one.children,
        source="file" if record is None else "store",
        file=one.object.file,
        version=one.object.version,
        created_at=None if one.object.created is None else datetime.fromtimestamp(one.object.created, UTC),
        updated_at=None if record is None else datetime.fromtimestamp(record.at, UTC),
        updated_by=None if record is None else record.by,
    )


def outline(tree: TreeView, name: str | None, depth: int) -> Branch:
    """The nodes below one (or all), as deep as wanted; the node itself is the root of its branch."""
    start = None if name is None else tree.find(name).node
    within = "" if start is None else start.path
    top = 1 if start is None else start.path.count("/") + 1
    shown: dict[str, Outline] = {}
    roots: list[Outline] = []
    every = [one for one in tree.every() if start is None or f"{one.node.path}/".startswith(f"{within}/")]
    for one in every:
        level = one.node.path.count("/") + 1 - top
        if level >= depth:
            continue
        made = shown[one.node.path] = _outlined(one, hidden=level + 1 == depth)
        parent = shown.get(one.node.parent or "")
        (roots if parent is None else parent.children).append(made)
    return Branch(items=roots, total=len(every))


def _outlined(one: TreeNode, *, hidden: bool) -> Outline:
    node = one.node
    return Outline(
        id=node.id,
        key=one.entry.data["key"],
        path=node.path,
        title=node.title,
        type=node.type,
        contexts=list(node.contexts),
        inherit="merge" if node.merge else "nearest",
        source="file" if one.entry.record is None else "store",
        children=[],
        more=one.children if hidden else 0,
    )


def contexts_of(tree: TreeView, one: TreeNode) -> ContextsOf:
    effective = tree.effective(one.node)
    above = [found.entity for found in effective if found.entity != one.node.path]
    return ContextsOf(
        assigned=list(one.node.contexts),
        inherit="merge" if one.node.merge else "nearest",
        effective=[
            Effective(
                context=found.context,
                name=tree.snapshot.contexts[found.context].name,
                entity=found.entity,
                inherited=found.entity != one.node.path,
            )
            for found in effective
        ],
        inherited_from=above[-1] if above else None,
    )


def links_of(tree: TreeView, one: TreeNode) -> LinksOf:
    return LinksOf(
        links=[_linked(written, to) for written, to in tree.linked(one.node)],
        backlinks=[_linked(other.id, other) for other in tree.backlinks(one.node)],
    )


def _linked(written: str, node: Node | None) -> Linked:
    if node is None:
        return Linked(link=written)
    return Linked(link=written, id=node.id, path=node.path, title=node.title)
