"""What the two tools can reach in one exchange, and what they answer."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, TypeVar

import msgspec

from gateway.domain.resource import Resource
from gateway.domain.selection import Selection
from gateway.domain.tools import OwnTools
from gateway.retrieval.passages import best_passages, shared_words

PAGE = 8000  # code points
LISTED = 200  # entries; the total says how many there are

A = TypeVar("A")


class GetArguments(msgspec.Struct, forbid_unknown_fields=True):
    resource_id: str
    query: str | None = None
    offset: Annotated[int, msgspec.Meta(ge=0)] | None = None


class ListArguments(msgspec.Struct, forbid_unknown_fields=True):
    query: str | None = None


class BadArguments(Exception):
    """What a model is told, so that it can call again."""


@dataclass(frozen=True)
class Library:
    """The resources of one selection. What is not in it does not exist, whatever id is asked for."""

    selection: Selection
    tools: OwnTools
    clean: Callable[[str], str]  # makes a text inert, as in the blocks

    def run(self, name: str, arguments: str) -> str:
        """The result of one call as the model reads it; faults are results too."""
        try:
            if name == self.tools.get:
                return self._get(decoded(arguments, GetArguments))
            return self._list(decoded(arguments, ListArguments))
        except BadArguments as fault:
            return f"Error: {fault}"

    def _get(self, asked: GetArguments) -> str:
        resource = self._find(asked.resource_id)
        if resource is None:
            raise BadArguments(f"no resource '{asked.resource_id}' is available.")
        text = self.clean(resource.text or "")
        if asked.query and asked.offset is None and len(text) > PAGE:
            text = best_passages(text, asked.query, PAGE)
        return f"[{self.clean(resource.name)}]\n{page(text, asked.offset)}"

    def _list(self, asked: ListArguments) -> str:
        found = [left.candidate.resource for left in self.selection.catalogue]
        if asked.query:
            found = matching(found, asked.query)
        entries = [
            {"id": one.id, "name": one.name, "type": one.type, "description": one.description} for one in found[:LISTED]
        ]
        return msgspec.json.encode({"resources": entries, "total": len(found)}).decode()

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
