"""The recipe collector: what a task needs, layer by layer."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Self

import msgspec
from msgspec.structs import replace

from gateway.collectors.branch import find_roots, leave_out_excluded, list_matching, make_summaries, sort_by_type
from gateway.collectors.nodes import MARK, ItemMaker, ProposedNode, count_unread, format_value, list_titles_above
from gateway.collectors.registry import CollectorParts, NoOptions
from gateway.domain.collector import NO_FINDINGS, Category, CollectorOrder, CollectorScope, Findings, FoundItem
from gateway.domain.content import LINK, NO_CONTENT, ContentReader, NodeContent
from gateway.domain.node import Node
from gateway.domain.principal import may_read
from gateway.domain.recipe import SELECTED, ContentNeed, Detail, LayerSource, RecipeLayer

TAIL = 1500  # characters of the sibling before, if the recipe does not say
SHORTEST_STATED = 40  # characters of a text that is looked for in the request
MOST_LOOKED_AT = 400_000  # characters of a request that are compared
OUTLINE = "outline"  # the property that holds one


class RecipeCollector(msgspec.Struct, frozen=True):
    """Takes the layers of a recipe in their order; what a layer before has taken is not repeated."""

    name: ClassVar = "recipe"
    category: ClassVar = Category.TASK
    priority: ClassVar = 5
    degraded: ClassVar = "content"
    shared: ClassVar = False
    options: ClassVar = NoOptions

    content: ContentReader

    @classmethod
    def open(cls, parts: CollectorParts) -> Self | None:
        return cls(parts.content) if parts.content is not None else None

    def applies(self, scope: CollectorScope) -> bool:
        return scope.scope.recipe is not None and bool(scope.scope.recipe.layers)

    async def collect(self, order: CollectorOrder) -> Findings:
        recipe = order.scope.recipe
        if recipe is None:
            return NO_FINDINGS
        reader = LayerReader(order, self.content)
        found: dict[str, FoundItem] = {}
        counts: dict[str, int] = {}
        for number, layer in enumerate(recipe.layers):
            items = [one for one in await reader.take(layer) if one.id not in found]
            counts[f"layer_{number + 1}"] = len(items)
            found |= {one.id: replace(one, layer=number, truncate=layer.truncate) for one in items}
        marked = mark_stated(found.values(), order)
        return Findings(
            tuple(marked), considered=len(found), truncated=reader.truncated, unread=reader.unread, counts=counts
        )


class LayerReader(msgspec.Struct):
    """Takes layers for one request; what it has read once is not read again."""

    order: CollectorOrder
    content: ContentReader
    truncated: bool = False
    unread: int = 0  # nodes that were too large to be read with all others
    _contents: dict[str, NodeContent] = msgspec.field(default_factory=dict)
    _references: dict[str, Node] = msgspec.field(default_factory=dict)  # by id: what layers have referred to so far

    @property
    def node(self) -> Node | None:
        """The node that the task is about."""
        recipe = self.order.scope.recipe
        return None if recipe is None or recipe.content is ContentNeed.NEVER else self.order.scope.node

    async def take(self, layer: RecipeLayer) -> Sequence[FoundItem]:
        match layer.take:
            case LayerSource.BODY:
                return await self._take_body(layer)
            case LayerSource.OUTLINE:
                return await self._take_outline(layer)
            case LayerSource.PREVIOUS:
                return await self._take_previous(layer)
            case LayerSource.REFERENCES:
                nodes = await self._find_references(layer)
                return await self._take_nodes(nodes, layer, "referred to by the task")
            case LayerSource.RELATIONS:
                return await self._take_relations()
            case LayerSource.NODES:
                return await self._take_matching(layer)
            case LayerSource.SELECTED:
                return await self._take_nodes(self._list_selected(), layer, "selected by the user")

    async def _read(self, nodes: Iterable[Node]) -> Mapping[str, NodeContent]:
        missing = [node.id for node in nodes if node.id not in self._contents]
        if missing:
            found = await self.content.read(self.order.workspace, missing)
            self.unread += count_unread(self.order.workspace, self.content, missing, found)
            self._contents.update(found)
        return self._contents

    async def _take_nodes(self, nodes: Sequence[Node], layer: RecipeLayer, why: str) -> list[FoundItem]:
        permitted = [one for one in nodes if self.order.snapshot.tree.may_read(self.order.readers, one)]
        self.truncated = self.truncated or len(permitted) > layer.limit
        permitted = permitted[: layer.limit]
        contents = await self._read(permitted)
        if layer.detail is Detail.SUMMARY:
            return make_summaries(leave_out_excluded(permitted, self.order), contents, layer.show, why)
        proposed = (ProposedNode(one, 1.0, why, layer.characters) for one in permitted)
        maker = ItemMaker(self.order)
        items = (maker.make(one, contents.get(one.node.id, NO_CONTENT)) for one in proposed)
        return [item for item in items if item is not None]

    async def _take_body(self, layer: RecipeLayer) -> list[FoundItem]:
        """The text of the node alone: its properties are what other layers may show."""
        node = self.node
        if node is None:
            return []
        content = (await self._read([node])).get(node.id, NO_CONTENT)
        proposed = ProposedNode(node, 1.0, "the content of the task", layer.characters)
        item = ItemMaker(self.order).make(proposed, replace(content, properties={}))
        return [item] if item is not None else []

    async def _take_outline(self, layer: RecipeLayer) -> list[FoundItem]:
        node = self.node
        if node is None:
            return []
        name = layer.show[0] if layer.show else OUTLINE
        content = (await self._read([node])).get(node.id, NO_CONTENT)
        value = content.properties.get(name)
        text = value.strip() if isinstance(value, str) else "\n".join(f"- {one}" for one in list_entries(value))
        return [self._make_part(node, OUTLINE, text[: layer.characters], "the outline of the task")] if text else []

    async def _take_previous(self, layer: RecipeLayer) -> list[FoundItem]:
        """The end of the sibling before the node, of the same type."""
        before = self._find_previous()
        if before is None:
            return []
        body = (await self._read([before])).get(before.id, NO_CONTENT).body.strip()
        text = cut_tail(body, layer.characters or TAIL)
        return [self._make_part(before, "ending", text, "what comes before the task")] if text else []

    def _find_previous(self) -> Node | None:
        node, tree = self.node, self.order.snapshot.tree
        if node is None:
            return None
        paths = tree.children.get(node.parent, ())
        before = (tree.nodes[path] for path in reversed(paths[: paths.index(node.path)]))
        readers = self.order.readers  # whoever may read the node may read all that is above both
        return next((one for one in before if one.type == node.type and may_read(readers, one.readers)), None)

    async def _find_references(self, layer: RecipeLayer) -> list[Node]:
        """What the request names by role, then what the node links to by type."""
        tree, refs = self.order.snapshot.tree, self.order.scope.refs
        named = [
            node
            for role, nodes in refs.items()
            if role != SELECTED and (not layer.links or role in layer.links)
            for node in nodes
        ]
        linked: list[Node] = []
        if self.node is not None:
            links = (await self._read([self.node])).get(self.node.id, NO_CONTENT).links
            wanted = [one for one in links if (one.type in layer.links if layer.links else one.type != LINK)]
            linked = [node for one in wanted if (node := tree.find(one.target)) is not None]
        unique = {node.id: node for node in (*named, *linked) if tree.may_read(self.order.readers, node)}
        self._references |= unique
        return sort_by_type(list(unique.values()))

    async def _take_relations(self) -> list[FoundItem]:
        """A line for each link among what the task refers to."""
        nodes = {one.id: one for one in leave_out_excluded([*self._references.values()], self.order)}
        contents = await self._read(nodes.values())
        lines = list(describe_relations(nodes, contents))
        if not lines:
            return []
        text = "\n".join(lines)
        return [FoundItem("#relations", "relations", "relations", "Relations", text, 1.0, "among what is referred to")]

    async def _take_matching(self, layer: RecipeLayer) -> list[FoundItem]:
        order = self.order
        nodes, truncated = list_matching(order.snapshot.tree, find_roots(order, self.node), layer.nodes, order.readers)
        self.truncated = self.truncated or truncated
        if layer.nodes.where:
            contents = await self._read(nodes)
            nodes = [one for one in nodes if layer.nodes.admits(contents.get(one.id, NO_CONTENT).properties)]
        return await self._take_nodes(nodes, layer, "part of every such task")

    def _list_selected(self) -> list[Node]:
        tree, scope = self.order.snapshot.tree, self.order.scope
        named = (tree.find(name) for name in sorted(scope.request.hints.include))
        return [*scope.refs.get(SELECTED, ()), *(node for node in named if node is not None)]

    def _make_part(self, node: Node, what: str, text: str, why: str) -> FoundItem:
        above = list_titles_above(self.order.snapshot.tree, node)
        return FoundItem(f"{node.id}#{what}", "node", what, node.title, text, 1.0, why, breadcrumb=above)


def list_entries(value: object) -> list[str]:
    return [format_value(one) for one in value] if isinstance(value, list) else []


def cut_tail(text: str, characters: int) -> str:
    """The end of a text, from the beginning of a sentence if one begins there."""
    if len(text) <= characters:
        return text
    tail = text[-characters:]
    start = max(tail.find(". ", 0, characters // 2) + 2, tail.find("\n", 0, characters // 2) + 1)
    return f"{MARK} {tail[start if start > 1 else tail.find(' ') + 1 :].lstrip()}"


def describe_relations(nodes: Mapping[str, Node], contents: Mapping[str, NodeContent]) -> Iterator[str]:
    for id, node in nodes.items():
        for link in contents.get(id, NO_CONTENT).links:
            if link.type != LINK and link.target in nodes:
                yield f"- {node.title} → {nodes[link.target].title}: {link.type}"


def mark_stated(items: Iterable[FoundItem], order: CollectorOrder) -> Iterator[FoundItem]:
    """The items, marked if the request itself already contains them."""
    said = normalize("\n".join(order.read_messages())[:MOST_LOOKED_AT])
    for item in items:
        text = normalize(item.text)
        yield replace(item, stated=True) if len(text) >= SHORTEST_STATED and text in said else item


def normalize(text: str) -> str:
    return " ".join(text.split())
