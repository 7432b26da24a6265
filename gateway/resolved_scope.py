"""What headers and a model come to, kept with their snapshot: most requests came before."""

from collections.abc import Hashable

import msgspec
from msgspec.structs import replace

from gateway.builder.context_builder import ContextOrder
from gateway.builder.scope_context import KnownScope, ScopeKeys
from gateway.conversation.hidden_turns import ConversationOwner
from gateway.domain.chat import ChatRequest
from gateway.domain.exchange import Exchange
from gateway.domain.injection import Injection, PlacementTarget
from gateway.domain.principal import Principal
from gateway.domain.scope import Scope
from gateway.domain.upstream import Capabilities, Upstream
from gateway.selection.window import WindowRoom, WindowTable
from gateway.sessions.sessions import SessionUse

REMEMBERED_BYTES = 512  # of a request's names; more of them are looked up each time
RESOLVED_BYTES = 2_600  # of a resolved scope without its names


class UsualContext(msgspec.Struct, frozen=True):
    """What every request of a scope gets that says nothing about tools and fits into the model's window."""

    injection: Injection  # without tools, and the same whatever the request asks
    has_texts: bool
    room: WindowRoom | None  # that it leaves in the model's window; None: more than anybody needs
    unless: frozenset[str]  # fields of a request that has to be looked at

    def suits(self, request: ChatRequest) -> bool:
        """Whether a request gets it without being looked at any further."""
        return self.unless.isdisjoint(request.fields) and (self.room is None or self.room.certainly_fits(request))


class ResolvedScope(msgspec.Struct, frozen=True):
    """What the headers and the model of a request come to, before anybody looks at its messages."""

    principal: Principal
    scope: Scope
    model: str
    upstreams: tuple[Upstream, ...]
    can: Capabilities
    target: PlacementTarget
    owner: ConversationOwner
    session: SessionUse | None = None
    tree_generation: int = 0  # of the snapshot: in another tree, names of content and readers may mean something else
    keys: ScopeKeys = msgspec.field(default_factory=dict)
    usual: UsualContext | None = None  # once a request has shown that there is one


def remember_usual(
    key: Hashable, order: ContextOrder, resolved: ResolvedScope, known: KnownScope, windows: WindowTable
) -> None:
    """Keep the injection with the scope under `key`, if others of that scope get it without being looked at."""
    exchange, request, injection = order.exchange, order.request, known.injection
    shaping = request.dialect.shaping_fields
    if resolved.usual is not None or injection.tools is not None:
        return
    partition = exchange.snapshot.partitions[order.workspace]
    if shaping.isdisjoint(request.fields) and partition.peek(key) is resolved:
        room = windows.measure_room(order.model, order.scope, order.keys[order.tool_names].budget)
        usual = UsualContext(injection, bool(injection.texts), room, shaping)
        weight = RESOLVED_BYTES + 3 * count_names(exchange, request) + known.weigh()
        partition.put(key, replace(resolved, usual=usual), weight, known.shared)


def count_names(exchange: Exchange, request: ChatRequest) -> int:
    """The bytes of the names that a request gives in its headers and model."""
    return len(request.model or "") + sum(len(value) for _, value in exchange.context_headers)
