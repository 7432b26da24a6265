"""Further context from what a tool answered: its text is one more query, within bounds."""

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from gateway.builder.context_builder import ContextBuilder, ContextOrder
from gateway.collectors.semantic import find_searcher
from gateway.domain.injection import ClientTools, Injection, OwnTools
from gateway.domain.resource import ResourceKind
from gateway.domain.search import Pick
from gateway.domain.selection import PlacedResource
from gateway.domain.tool_result import ToolResult
from gateway.errors import WorkspaceBusy
from gateway.injection.blocks import format_entry
from gateway.injection.called_tools import MAX_TOOLS, IsAvailable, extend_called_tools
from gateway.semantic.search.sentences import split_query

LOOKED_AT = 4000  # characters of a result that are searched with
VIA = "tool_result"


class ResultExpansion(msgspec.Struct):
    """The searches of one exchange; all of them share what is left of the budget."""

    builder: ContextBuilder
    order: ContextOrder
    injection: Injection
    tools: OwnTools  # that are registered by now
    client: ClientTools
    is_available: IsAvailable
    left: int  # searches
    _turn: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)  # calls of one turn run at the same time
    _taken: set[str] = msgspec.field(default_factory=set)  # ids that this exchange has already
    _room: int = -1  # tokens; -1: not worked out yet

    async def expand(self, name: str, result: ToolResult) -> ToolResult:
        """The result of a tool with what is relevant to it and not there yet: texts after it, tools from now on."""
        async with self._turn:
            try:
                return await self._expand(name, result)
            except WorkspaceBusy:
                self.order.exchange.degraded.add("semantic")
                return result

    async def _expand(self, name: str, result: ToolResult) -> ToolResult:
        selection, order, searchable = self.injection.selection, self.order, self.injection.searchable
        searcher = find_searcher(self.builder.collectors, order.workspace, order.scope)
        if self.left <= 0 or searcher is None or not searchable:
            return result
        self.left -= 1
        if self._room < 0:
            before = (*selection.stable, *selection.volatile, *selection.tools)
            self._taken = {one.candidate.resource.id for one in before}
            self._room = max(0, selection.budget - self.injection.tokens)
        query = split_query(result.text[:LOOKED_AT])
        found = await searcher.find(order.workspace, query, searchable, order.scope.selection)
        placed = await self.builder.threads.run(order.workspace, self._place, name, found.picks)
        order.exchange.expansions = (*order.exchange.expansions, *placed)
        return self._add(result, placed)

    def _place(self, name: str, picks: Sequence[Pick]) -> list[PlacedResource]:
        """The picks that fit; counting tokens takes time, so this runs in a thread."""
        selection, counter = self.injection.selection, self.builder.counter
        known = {one.candidate.resource.id: one.candidate for one in (*selection.catalogue, *selection.waiting)}
        placed: list[PlacedResource] = []
        places = MAX_TOOLS - len(self.client.tools) - len(self.tools.schemas)
        for pick in picks:
            candidate = known.get(pick.resource)
            if candidate is None or pick.resource in self._taken:
                continue
            is_tool = candidate.resource.kind is ResourceKind.TOOL
            if is_tool and (places <= 0 or not self.is_available(candidate.resource.data)):
                continue
            text = candidate.resource.text or ""
            tokens = counter.count(text, counter.family(self.order.model))
            if tokens > self._room:
                continue
            self._taken.add(pick.resource)
            self._room -= tokens
            places -= is_tool
            why = f"relevant with probability {pick.score:.2f} to a result of {name}"
            placed.append(PlacedResource(replace(candidate, score=pick.score, via=VIA, why=why), text, tokens))
        return placed

    def _add(self, result: ToolResult, placed: Sequence[PlacedResource]) -> ToolResult:
        tools = [one for one in placed if one.candidate.resource.kind is ResourceKind.TOOL]
        texts = [one for one in placed if one.candidate.resource.kind is not ResourceKind.TOOL]
        entries = [format_entry(one.candidate.resource.name, one.text) for one in texts]
        before = len(self.tools.schemas)
        self.tools = extend_called_tools(self.tools, tools, self.client.names)
        new = list(self.tools.called)[len(self.tools.called) - len(tools) :]
        added = dict(zip(new, self.tools.schemas[before:], strict=True))
        ids = (one.candidate.resource.id for one in texts)
        return replace(
            result, text="\n\n".join([result.text, *entries]), resources=(*result.resources, *ids), added=added
        )
