"""Tools of servers and endpoints in an injection: their definitions, their names, and which of them there are now."""

from collections.abc import Callable, Iterable

from msgspec import Raw
from msgspec.structs import replace

from gateway.domain.collector import Category
from gateway.domain.injection import ClientTools, Injection, OwnTools
from gateway.domain.selection import CategoryCost, Notice, Omission, PlacedResource, Selection
from gateway.domain.tool import DEFINITION_HEAD, CallableTool, rename_definition
from gateway.injection.neutral import neutralize
from gateway.injection.tools import PLAIN_TOOLS, find_free_name
from gateway.tokens import TokenCount

MAX_TOOLS = 128  # of one request; OpenAI refuses more

IsAvailable = Callable[[CallableTool], bool]


def add_called_tools(
    own: OwnTools | None, tools: Iterable[PlacedResource], taken: frozenset[str] = frozenset()
) -> OwnTools | None:
    """Our two tools, if they are registered, followed by others; of two with one name the later is renamed."""
    base = own if own is not None else replace(PLAIN_TOOLS, schemas=(), fetches=False)
    extended = extend_called_tools(base, tools, taken)
    return extended if extended.called else own


def extend_called_tools(base: OwnTools, tools: Iterable[PlacedResource], taken: frozenset[str]) -> OwnTools:
    """The tools with others after them, each under a name that is free."""
    used = {*base.names, *taken}
    called = dict(base.called)
    definitions: list[Raw] = []
    for placed in tools:
        tool = placed.candidate.resource.data
        name = find_free_name(tool.function, used)
        used.add(name)
        called[name] = placed
        text = neutralize(placed.text)
        definitions.append(
            Raw((text if name == tool.function else rename_definition(text, tool.function, name)).encode())
        )
    return replace(base, schemas=(*base.schemas, *definitions), called=called)


def charge_names(selection: Selection, tools: OwnTools | None, count: TokenCount, paid: int = 0) -> Selection:
    """The selection with what tools cost more under the names that they have got, but for what is paid already."""
    more = (count_names(tools, count) if tools is not None else 0) - paid
    if not more:
        return selection
    charged = replace(selection, costs=(*selection.costs, CategoryCost(Category.TOOLS, more)))
    if charged.count_tokens() <= selection.budget:
        return charged
    notice = Notice("over_budget", Category.TOOLS, f"Names that are free need {more} tokens more.")
    return replace(charged, warnings=(*selection.warnings, notice))


def count_names(tools: OwnTools, count: TokenCount) -> int:
    """The tokens that tools cost more because they were renamed."""
    names = ((name, placed.candidate.resource.data.function) for name, placed in tools.called.items())
    return sum(count_name(name, count) - count_name(own, count) for name, own in names if name != own)


def count_name(name: str, count: TokenCount) -> int:
    """The tokens of a name where it stands in a definition: from where to where tokenizers split anyway."""
    return count(f'{DEFINITION_HEAD}{name}","')


def settle_called_tools(
    injection: Injection, client: ClientTools, is_available: IsAvailable, count: TokenCount
) -> Injection:
    """The injection with the tools that are there now, under names that the client does not use.

    The same object if nothing has to change. Whose server is down is dropped and named.
    """
    own = injection.tools
    assert own is not None
    placed = list(own.called.values())
    there = [one for one in placed if is_available(one.candidate.resource.data)]
    room = max(0, MAX_TOOLS - len(client.tools) - (2 if own.fetches else 0))
    kept = there[:room]
    if len(kept) == len(placed) and client.names.isdisjoint(own.called):
        return injection
    ours = replace(own, schemas=own.schemas[:2], called={}) if own.fetches else None
    tools = add_called_tools(ours, kept, client.names)
    selection = injection.selection
    missing = [one for one in placed if one not in there]
    dropped = [Omission(one.candidate, "unavailable") for one in missing]
    dropped += [Omission(one.candidate, "over_budget") for one in there[room:]]
    settled = replace(
        selection,
        tools=tuple(kept),
        dropped=(*selection.dropped, *dropped),
        degraded=selection.degraded | ({"mcp"} if missing else set()),
    )
    settled = charge_names(settled, tools, count, count_names(own, count))
    return replace(injection, tools=tools, tokens=settled.count_tokens(), selection=settled)
