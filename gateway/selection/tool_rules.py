"""Tools among the candidates: which they are, and which of them bring others."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from gateway.domain.candidate import Candidate
from gateway.domain.resource import ResourceKind
from gateway.domain.selection import Omission, PlacedResource
from gateway.domain.tool import CallableTool

MAX_BROUGHT = 50  # tools that come along with others, directly or not


def is_tool(candidate: Candidate) -> bool:
    return candidate.resource.kind is ResourceKind.TOOL


def add_brought(chosen: Sequence[Candidate], candidates: Iterable[Candidate]) -> list[Candidate]:
    """The chosen candidates, each followed by the tools that it brings and that are not there yet."""
    known = {one.resource.id: one for one in candidates if is_tool(one)}
    taken = {one.resource.id for one in chosen}
    result: list[Candidate] = []
    waiting = list(reversed(chosen))
    brought = 0
    while waiting:
        one = waiting.pop()
        result.append(one)
        brings = one.resource.data.brings if isinstance(one.resource.data, CallableTool) else ()
        for identity in reversed(brings):
            other = known.get(identity)
            if other is not None and identity not in taken and brought < MAX_BROUGHT:
                taken.add(identity)
                brought += 1
                waiting.append(replace(other, via="rule", why=f"comes along with {one.resource.id}"))
    return result


def list_waiting(tools: Iterable[Candidate], registered: Iterable[PlacedResource]) -> list[Omission]:
    """The tools that are in reach and not registered."""
    taken = {one.candidate.resource.id for one in registered}
    return [Omission(one) for one in tools if one.resource.id not in taken]
