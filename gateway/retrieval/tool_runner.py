"""What the two tools can reach in one exchange, and what they answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Protocol, TypeVar

import msgspec

from gateway.domain.resource import Resource
from gateway.domain.selection import Selection
from gateway.domain.tools import OwnTools
from gateway.retrieval.passages import best_passages, joined, shared_words

PAGE = 8000  # code points
LISTED = 200  # entries; the total says how many there are

A = TypeVar("A")


class GetArguments(msgspec.Struct, forbid_unknown_fields=True):
    resource_id: str
    query: str | None = None
    offset: Annotated[int, msgspec.Meta(ge=0)] | None = None


class ListArguments(msgspec.Struct, forbid_unknown_fields=True):
    query: str | None = None


class ResourceFinder(Protocol):
    """Searches by meaning on behalf of one caller."""

    async def rank(self, query: str, resources: Sequence[str]) -> list[str] | None:
        """The ids among `resources` that may answer a query, best first; None if it cannot tell now."""
        ...

    async def passages(self, query: str, resource: str) -> list[str]:
        """The passages of a resource that answer a query, best first; [] if it cannot tell now."""
        ...


class BadArguments(Exception):
    """What a model is told, so that it can call again."""


@dataclass(frozen=True)
class ToolRunner:
    """The resources of one selection. What is not in it does not exist, whatever id is asked for."""

    selection: Selection
    tools: OwnTools
    clean: Callable[[str], str]  # makes a text inert, as in the blocks
    finder: ResourceFinder | None = None  # searches by meaning; words have to do without it

    async def run(self, name: str, arguments: str) -> str:
        """The result of one call as the model reads it; faults are results too."""
        try:
            if name == self.tools.get:
                return await self._get(decoded(arguments, GetArguments))
            return await self._list(decoded(arguments, ListArguments))
        except BadArguments as fault:
            return f"Error: {fault}"

    async def _get(self, asked: GetArguments) -> str:
        resource = self._find(asked.resource_id)
        if resource is None:
            raise BadArguments(f"no resource '{asked.resource_id}' is available.")
        text = self.clean(resource.text or "")
        if asked.query and asked.offset is None and len(text) > PAGE:
            text = await self._passages(resource, text, asked.query)
        return f"[{self.clean(resource.name)}]\n{page(text, asked.offset)}"

    async def _passages(self, resource: Resource, text: str, query: str) -> str:
        """The parts of a long text that answer a query."""
        found = await self.finder.passages(query, resource.id) if self.finder is not None else []
        return joined(map(self.clean, found), PAGE) if found else best_passages(text, query, PAGE)

    async def _list(self, asked: ListArguments) -> str:
        placed = {one.candidate.resource.id for one in self.selection.volatile if not one.truncated}
        offered = (left.candidate.resource for left in self.selection.catalogue)
        found = [resource for resource in offered if resource.id not in placed]
        if asked.query:
            found = await self._ranked(found, asked.query)
        entries = [
            {"id": one.id, "name": one.name, "type": one.type, "description": one.description} for one in found[:LISTED]
        ]
        return msgspec.json.encode({"resources": entries, "total": len(found)}).decode()

    async def _ranked(self, resources: list[Resource], query: str) -> list[Resource]:
        """The resources that answer a query, best first."""
        if self.finder is None:
            return matching(resources, query)
        known = {resource.id: resource for resource in resources}
        ranked = await self.finder.rank(query, list(known))
        return [known[identity] for identity in ranked] if ranked is not None else matching(resources, query)

    def _find(self, identity: str) -> Resource | None:
        selection = self.selection
        offered = (left.candidate for left in selection.catalogue)
        placed = (one.candidate for one in (*selection.stable, *selection.volatile))
        reachable = (candidate.resource for candidate in chain(offered, placed))
        return next((resource for resource in reachable if resource.id == identity), None)


def decoded(arguments: str, kind: type[A]) -> A:
    """Arguments as a model wrote them; nothing at all means {}."""
    try:
        return msgspec.json.decode(arguments.strip() or "{}", type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as fault:
        raise BadArguments(f"the arguments are not usable: {fault}.") from fault


def page(text: str, offset: int | None) -> str:
    """A page of a text, with a line that says where it stands unless it is the whole."""
    start = offset or 0
    if start and start >= len(text):
        raise BadArguments(f"offset {start} is beyond the end, {len(text)}.")
    end = min(start + PAGE, len(text))
    if end < len(text):
        return f"{text[start:end]}\n\n[characters {start}-{end} of {len(text)}; next offset: {end}]"
    if offset is None:
        return text
    return f"{text[start:end]}\n\n[characters {start}-{end} of {len(text)}]"


def matching(resources: list[Resource], query: str) -> list[Resource]:
    """The resources that share words with the query, most first."""
    scored = [(shared_words(query, f"{r.name} {r.description} {r.text or ''}"), r) for r in resources]
    return [resource for hits, resource in sorted(scored, key=lambda pair: -pair[0]) if hits]
