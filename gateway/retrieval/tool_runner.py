"""The gateway's own two tools: what they can reach in one exchange, and what they answer; others are called."""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Annotated, Any, Protocol, TypeVar

import msgspec

from gateway.content.library import PREFIX, NodeEntry, NodeText
from gateway.domain.collector import FoundItem
from gateway.domain.injection import OwnTools
from gateway.domain.resource import Resource
from gateway.domain.retriever import FoundPassage, Lookup, Retriever
from gateway.domain.selection import Selection
from gateway.domain.tool import CallableTool, ToolOutcome
from gateway.domain.tool_result import ToolResult
from gateway.errors import WorkspaceBusy, shorten

PAGE = 8000  # code points
LONGEST_QUERY = 2000  # code points of a query that are compared with every resource
BREAK = "\n\n"
NO_LOOKUP = Lookup(failure="nothing here can ask it")
LARGE = 64_000  # code points from which texts are searched off the event loop
MAX_LISTED = 200  # entries; the total says how many there are
LISTED = ("id", "name", "type", "description")  # what a list says of each

_WORD = re.compile(r"\w+")
_PARAGRAPH_BREAK = re.compile(r"\n\s*\n")

A = TypeVar("A")


class GetArguments(msgspec.Struct, forbid_unknown_fields=True):
    resource_id: str
    query: str | None = None
    offset: Annotated[int, msgspec.Meta(ge=0)] | None = None


class ListArguments(msgspec.Struct, forbid_unknown_fields=True):
    query: str | None = None


class ResourceFinder(Protocol):
    """Semantic search on behalf of one caller."""

    async def rank(self, query: str, resources: Sequence[str]) -> list[str] | None:
        """The ids among `resources` that may answer a query, best first; None if it cannot tell now."""
        ...

    async def find_passages(self, query: str, resource: str) -> list[str]:
        """The passages of a resource that answer a query, best first; [] if it cannot tell now."""
        ...


class NodeSource(Protocol):
    """The nodes that the caller may read; their ids begin with PREFIX, which no resource's does."""

    async def get(self, id: str) -> NodeText | None:
        """A node; None if there is none that the caller may read, or nobody can tell now."""
        ...

    async def list_entries(self, query: str | None) -> list[NodeEntry]:
        """What a query finds; without one, what is around the node at hand."""
        ...


OffLoop = Callable[[Callable[[], A]], Awaitable[A]]  # work that takes long, in a thread; raises WorkspaceBusy
CallTool = Callable[[CallableTool, str], Awaitable[ToolOutcome]]
LookUp = Callable[[Resource, str], Awaitable[Lookup]]  # a retriever and a query


class ToolCallError(Exception):
    """Why a call failed, in words for the model, so that it can call again."""


class ToolRunner(msgspec.Struct):
    """Runs calls over the resources of one selection; for it no others exist, whatever id is asked for."""

    selection: Selection
    tools: OwnTools
    clean: Callable[[str], str]  # makes a text inert, as in the blocks
    finder: ResourceFinder | None = None  # None: queries are matched by words
    call: CallTool | None = None  # runs tools of servers and endpoints
    nodes: NodeSource | None = None  # None: the request is not about content
    look_up: LookUp | None = None  # asks retrievers
    off_loop: OffLoop[Any] | None = None  # None: everything is computed at once

    async def run(self, name: str, arguments: str) -> ToolResult:
        """The result of one call; errors are results too."""
        placed = self.tools.called.get(name)
        if placed is not None and self.call is not None:
            return await self._call(placed.candidate.resource, arguments, self.call)
        try:
            if name == self.tools.get:
                return await self._get(decode_arguments(arguments, GetArguments))
            return await self._list(decode_arguments(arguments, ListArguments))
        except ToolCallError as fault:
            return ToolResult(f"Error: {fault}", failed=True)

    async def _call(self, tool: Resource, arguments: str, call: CallTool) -> ToolResult:
        outcome = await call(tool.data, arguments)
        text = self.clean(outcome.text)
        return ToolResult(f"Error: {text}" if outcome.failed else text, (tool.id,), outcome.failed)

    async def _get(self, arguments: GetArguments) -> ToolResult:
        resource = self._find(arguments.resource_id)
        if resource is None and self.nodes is not None and arguments.resource_id.startswith(PREFIX):
            return await self._get_node(arguments, self.nodes)
        if resource is None:
            raise ToolCallError(f"no resource '{shorten(arguments.resource_id)}' is available.")
        if isinstance(resource.data, Retriever):
            return await self._look_up(resource, arguments)
        text = await self._clean_all(resource.text or "")
        if arguments.query and arguments.offset is None and len(text) > PAGE:
            text = await self._select_passages(resource, text, arguments.query)
        return ToolResult(f"[{self.clean(resource.name)}]\n{cut_page(text, arguments.offset)}", (resource.id,))

    async def _look_up(self, resource: Resource, arguments: GetArguments) -> ToolResult:
        """What a retriever finds for a query; a page of it comes from the same lookup."""
        if not (arguments.query or "").strip():
            raise ToolCallError(f"'{resource.id}' searches for an answer: call again with a `query`.")
        lookup = await self.look_up(resource, arguments.query or "") if self.look_up is not None else NO_LOOKUP
        if lookup.failure is not None:
            raise ToolCallError(f"'{resource.id}' cannot be searched now: {self.clean(lookup.failure)}.")
        text = BREAK.join(self.clean(format_passage(one)) for one in lookup.passages) or "Nothing was found."
        return ToolResult(f"[{self.clean(resource.name)}]\n{cut_page(text, arguments.offset)}", (resource.id,))

    async def _get_node(self, arguments: GetArguments, nodes: NodeSource) -> ToolResult:
        node = await nodes.get(arguments.resource_id)
        if node is None:
            raise ToolCallError(f"no resource '{shorten(arguments.resource_id)}' is available.")
        text = await self._clean_all(node.text)
        if arguments.query and arguments.offset is None and len(text) > PAGE:
            text = await self._compute(len(text), partial(select_passages, text, arguments.query, PAGE))
        return ToolResult(f"[{self.clean(node.title)}]\n{cut_page(text, arguments.offset)}", (node.id,))

    async def _select_passages(self, resource: Resource, text: str, query: str) -> str:
        """The parts of a long text that answer a query."""
        found = await self.finder.find_passages(query, resource.id) if self.finder is not None else []
        if found:
            return join_passages(map(self.clean, found), PAGE)
        return await self._compute(len(text), partial(select_passages, text, query, PAGE))

    async def _list(self, arguments: ListArguments) -> ToolResult:
        placed = {one.candidate.resource.id for one in self.selection.volatile if not one.truncated}
        offered = (omission.candidate.resource for omission in self.selection.catalogue)
        found = [resource for resource in offered if resource.id not in placed]
        if arguments.query:
            found = await self._rank(found, arguments.query)
        shown = found[:MAX_LISTED]
        entries = [(one.id, one.name, one.type, one.description or f"{one.type} resource") for one in shown]
        total = len(found)
        if self.nodes is not None:
            near = await self.nodes.list_entries(arguments.query)
            total += len(near)
            entries += [(one.id, one.title, one.type, one.path) for one in near[: MAX_LISTED - len(shown)]]
        # Authors choose all of it, the ids of nodes too.
        listed = [dict(zip(LISTED, map(self.clean, entry), strict=True)) for entry in entries]
        text = msgspec.json.encode({"resources": listed, "total": total}).decode()
        return ToolResult(text, tuple(entry[0] for entry in entries))

    async def _rank(self, resources: list[Resource], query: str) -> list[Resource]:
        """The resources that answer a query, best first."""
        known = {resource.id: resource for resource in resources}
        ranked = await self.finder.rank(query, list(known)) if self.finder is not None else None
        if ranked is not None:
            return [known[identity] for identity in ranked]
        size = sum(len(resource.text or "") for resource in resources)
        return await self._compute(size, partial(rank_by_words, resources, query))

    async def _clean_all(self, text: str) -> str:
        return await self._compute(len(text), partial(self.clean, text))

    async def _compute(self, size: int, work: Callable[[], A]) -> A:
        """What some work returns; where texts are large, it keeps nobody else waiting."""
        if size <= LARGE or self.off_loop is None:
            return work()
        try:
            done: A = await self.off_loop(work)
            return done
        except WorkspaceBusy:
            raise ToolCallError("too much is being looked up at the moment; call again later.") from None

    def _find(self, identity: str) -> Resource | None:
        selection = self.selection
        offered = (omission.candidate for omission in selection.catalogue)
        placed = (one.candidate for one in (*selection.stable, *selection.volatile))
        reachable = (candidate.resource for candidate in chain(offered, placed))
        # What collectors found is no resource: its id may be that of one.
        found = (one for one in reachable if not isinstance(one.data, FoundItem))
        return next((resource for resource in found if resource.id == identity), None)


def format_passage(passage: FoundPassage) -> str:
    """A passage as a tool's result shows it, with its source beside it."""
    about = [f"[{passage.title}]"] if passage.title else []
    about += [f"source: {passage.source}"] if passage.source else []
    return "\n".join([*([" ".join(about)] if about else []), passage.text])


def decode_arguments(arguments: str, kind: type[A]) -> A:
    """Arguments as a model wrote them; nothing at all means {}."""
    try:
        return msgspec.json.decode(arguments.strip() or "{}", type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as fault:
        raise ToolCallError(f"the arguments are not usable: {fault}.") from fault


def cut_page(text: str, offset: int | None, size: int = PAGE) -> str:
    """A page of a text, with a line that gives its position unless it is the whole text."""
    start = offset or 0
    if start and start >= len(text):
        raise ToolCallError(f"offset {start} is beyond the end, {len(text)}.")
    end = min(start + size, len(text))
    if end < len(text):
        return f"{text[start:end]}\n\n[characters {start}-{end} of {len(text)}; next offset: {end}]"
    if offset is None:
        return text
    return f"{text[start:end]}\n\n[characters {start}-{end} of {len(text)}]"


def rank_by_words(resources: list[Resource], query: str) -> list[Resource]:
    """The resources that share words with the query, most first."""
    query = query[:LONGEST_QUERY]
    scored = [(count_shared_words(query, f"{r.name} {r.description} {r.text or ''}"), r) for r in resources]
    return [resource for hits, resource in sorted(scored, key=lambda pair: -pair[0]) if hits]


def select_passages(text: str, query: str, size: int) -> str:
    """The paragraphs that share most words with the query and fit into `size` characters, in reading order."""
    paragraphs = [piece[:size] for piece in _PARAGRAPH_BREAK.split(text) if piece.strip()]
    wanted = split_words(query)
    shared = [len(wanted & split_words(paragraph)) for paragraph in paragraphs]
    chosen: list[int] = []
    room = size
    for place in sorted(range(len(paragraphs)), key=lambda place: -shared[place]):
        if not shared[place] and chosen:
            break
        if len(paragraphs[place]) + 2 <= room or not chosen:
            chosen.append(place)
            room -= len(paragraphs[place]) + 2
    return "\n\n".join(paragraphs[place] for place in sorted(chosen))


def join_passages(passages: Iterable[str], size: int) -> str:
    """As many of the passages, best first, as fit into `size` characters."""
    text = ""
    for passage in passages:
        if text and len(text) + 2 + len(passage) > size:
            break
        text = f"{text}\n\n{passage}" if text else passage[:size]
    return text


def count_shared_words(query: str, text: str) -> int:
    return len(split_words(query) & split_words(text))


def split_words(text: str) -> set[str]:
    """The words of a text that are longer than two letters, in lower case."""
    return {word for word in _WORD.findall(text.lower()) if len(word) > 2}
