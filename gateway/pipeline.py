"""The walk of one request: prepare it, then converse. Rooms meet here and nowhere else."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field, replace

import msgspec
from msgspec import Raw

from gateway.collectors.contexts import Merge, collect
from gateway.conversation.calls import OwnCall
from gateway.conversation.conversation import Conversation, Sender
from gateway.conversation.hidden_turns import TTL, ConversationOwner, HiddenTurn, calls_in, expand
from gateway.conversation.loop import LoopPlan
from gateway.conversation.reply_loop import ReplyLoop
from gateway.conversation.stream_loop import StreamLoop
from gateway.domain.agent import Placement, SelectionSettings
from gateway.domain.chat import ChatRequest
from gateway.domain.exchange import Exchange, Reply
from gateway.domain.injection import Injection
from gateway.domain.lru import HitCounter
from gateway.domain.scope import Scope
from gateway.domain.snapshot import Snapshot
from gateway.domain.tools import ClientTools, OwnTools
from gateway.domain.upstream import Upstream, UpstreamReply, UpstreamRequest, common_capabilities
from gateway.errors import StoreError
from gateway.injection.blocks import block_tag
from gateway.injection.compose import Outgoing, Target, compose
from gateway.injection.inject import entry_cost, inject, with_items, with_volatile
from gateway.injection.neutral import neutral
from gateway.injection.tools import client_tools, may_register, own_tools
from gateway.retrieval.tool_runner import ToolRunner
from gateway.scopes.chat_body import decode_chat
from gateway.scopes.context_request import read_context_request
from gateway.scopes.levels import assignments
from gateway.scopes.question import question_of
from gateway.scopes.scope import build_scope, outgoing_model
from gateway.selection.select import Terms, budget_of, select, with_picks
from gateway.semantic.search.sentences import searched
from gateway.semantic.searcher import SemanticSearcher, WorkspaceSearcher
from gateway.settings import DefaultSettings
from gateway.stores.protocols import EphemeralStore
from gateway.tokens import TokenCounter
from gateway.upstreams.routes import Routes

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Ask:
    """What decides an injection, apart from the snapshot."""

    scope: Scope
    model: str
    client: ClientTools | None  # None: our tools cannot be registered
    messages: list[Raw]

    @property
    def tools(self) -> OwnTools:
        clash = self.client is not None and not self.client.names.isdisjoint(PLAIN_TOOLS.names)
        return own_tools(self.client.names) if self.client is not None and clash else PLAIN_TOOLS

    @property
    def key(self) -> tuple[Hashable, ...]:
        """What of it makes a difference before the question is looked at."""
        tools = self.tools
        return (*scope_key(self.scope), self.client is not None, tools.get, tools.list)

    @property
    def settings(self) -> SelectionSettings:
        """The request's tuning of the selection over its agent's."""
        asked = self.scope.asked.selection
        return asked.over(self.scope.agent.selection) if self.scope.agent is not None else asked


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that only has to be sent."""

    request: ChatRequest
    scope: Scope
    model: str
    upstreams: tuple[Upstream, ...]
    client: ClientTools
    injection: Injection
    outgoing: Outgoing


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Everything that the walk of a request needs, built once."""

    routes: Routes
    store: EphemeralStore
    counter: TokenCounter
    merge: Merge
    secret: bytes
    defaults: DefaultSettings
    engine: SemanticSearcher | None = None  # None: semantic resources are only offered through the tools
    lookups: HitCounter = field(default_factory=HitCounter)  # of selections that were made for the same question before

    async def prepare(self, exchange: Exchange, body: bytes) -> Prepared:
        """From bytes to the exact outgoing request."""
        request = decode_chat(body)
        asked = read_context_request(exchange.headers, request.fields.get("context"))
        scope = build_scope(asked, request.model, exchange.principal, exchange.snapshot)
        model = outgoing_model(request.model, scope, self.defaults.model)
        exchange.agent, exchange.model = scope.agent.alias if scope.agent else None, model
        upstreams = self.routes.candidates(model)
        client = client_tools(request)
        offers = common_capabilities(upstreams).tools and may_register(request, client)
        ask = Ask(scope, model, client if offers else None, request.messages)
        injection = await self._injection(exchange, ask)
        exchange.injected, exchange.tokens = injection.injected, injection.tokens
        exchange.degraded |= injection.selection.degraded
        history = await self._with_hidden_turns(exchange, scope, request)
        outgoing = compose(request, history, scope, injection, self._target(model, scope, upstreams))
        return Prepared(request, scope, model, upstreams, client, injection, outgoing)

    async def converse(self, exchange: Exchange, prepared: Prepared) -> Reply:
        """Send it, run our tools in between, and give the client its reply."""
        send = self._sender(exchange, prepared)
        if prepared.injection.tools is None:
            return await Conversation(exchange, send).relay(self.body_of(prepared))
        run, keep = self._runner(exchange, prepared.injection), self._keeper(exchange, prepared.scope)
        conversation = Conversation(exchange, send, run, keep)
        plan = self.loop_plan(prepared)
        if prepared.request.stream:
            return await conversation.stream(StreamLoop(plan))
        return await conversation.answer(ReplyLoop(plan))

    def body_of(self, prepared: Prepared) -> bytes:
        """The body of the first upstream call; the client's own bytes when nothing had to change."""
        if prepared.injection.tools is not None:
            return ReplyLoop(self.loop_plan(prepared)).request()
        outgoing = prepared.outgoing
        return (
            prepared.request.raw if outgoing.unchanged else _encode({**outgoing.fields, "messages": outgoing.messages})
        )

    def loop_plan(self, prepared: Prepared) -> LoopPlan:
        """What the tool loop has to know; only asked for where our tools are registered."""
        request, tools, agent = prepared.request, prepared.injection.tools, prepared.scope.agent
        assert tools is not None
        fields = {key: value for key, value in prepared.outgoing.fields.items() if key not in ("tools", "tool_choice")}
        wants_usage = request.stream and asks_usage(request)
        can_force = request.stream and common_capabilities(prepared.upstreams).stream_usage
        return LoopPlan(
            fields=fields,
            messages=prepared.outgoing.messages,
            own_tools=tools.schemas,
            own_names=tools.names,
            client_tools=prepared.client.tools,
            tool_choice=prepared.client.choice,
            max_turns=(agent.max_turns if agent is not None else None) or self.defaults.max_turns,
            wants_usage=wants_usage,
            forces_usage=can_force and not wants_usage,
            last_text_only=asks_json(request),
        )

    async def _injection(self, exchange: Exchange, ask: Ask) -> Injection:
        """The injection for a scope and a question: remembered by the snapshot, else made off the loop."""
        key = (exchange.principal.workspace, *ask.key, self.counter.family(ask.model))
        injection = recall(exchange.snapshot, key)
        if injection is None:
            injection = await asyncio.to_thread(self._make, exchange, ask)
            remember(exchange.snapshot, key, injection)
        if self.engine is not None and injection.findable and ask.scope.asked.inject:
            injection = await self._with_picks(exchange, ask, injection, key)
        items = ask.scope.asked.items
        if items and ask.scope.asked.inject and ask.scope.takes_part:
            count = self._counting(ask.model)
            injection = await asyncio.to_thread(with_items, injection, items, self._tag(exchange), count)
        return injection

    def _make(self, exchange: Exchange, ask: Ask) -> Injection:
        """Scope → contexts → candidates → selection → injection."""
        scope, count = ask.scope, self._counting(ask.model)
        found = assignments(scope, exchange.snapshot)
        collected = collect(scope, found, exchange.snapshot, self.merge)
        terms = Terms(budget_of(scope, self.defaults.budget), ask.client is not None, entry_cost(count))
        selection = select(collected.candidates, collected.dropped, found, terms)
        if collected.missing:
            selection = replace(selection, degraded=frozenset({"links"}))
        instructions = scope.agent.instructions if scope.agent is not None else ""
        return inject(selection, ask.tools, instructions, self._tag(exchange), count)

    async def _with_picks(
        self, exchange: Exchange, ask: Ask, injection: Injection, key: tuple[Hashable, ...]
    ) -> Injection:
        """The injection with what is relevant to the question."""
        assert self.engine is not None
        question = question_of(ask.messages)
        if question is None:
            return injection
        # By what is searched for, not by the whole conversation: a question that stands alone is the same in each.
        key = (*key, *searched(question.text, question.earlier), ask.settings)
        known = recall(exchange.snapshot, key)
        self.lookups.count(known is not None)
        if known is not None:
            return known
        workspace = exchange.principal.workspace
        found = await self.engine.find(workspace, question, injection.findable, ask.settings)
        count = self._counting(ask.model)

        def place() -> Injection:
            selection = with_picks(injection.selection, found, entry_cost(count))
            return with_volatile(injection, selection, self._tag(exchange), count)

        picked = await asyncio.to_thread(place)
        if found.reason is None and not found.pending:
            remember(exchange.snapshot, key, picked)
        return picked

    def _tag(self, exchange: Exchange) -> str:
        return block_tag(self.secret, exchange.principal.workspace)

    def _counting(self, model: str) -> Callable[[str], int]:
        return lambda text: self.counter.count(text, model)

    def _target(self, model: str, scope: Scope, upstreams: tuple[Upstream, ...]) -> Target:
        """What every upstream that may serve the request can take."""
        placement = next(
            (source.placement for source in (scope.agent, scope.profile) if source is not None and source.placement),
            self.defaults.placement,
        )
        can = common_capabilities(upstreams)
        if placement is Placement.TURN and not can.system_anywhere:
            placement = Placement.TURN_USER
        return Target(model, placement, can.cache_marker, can.developer)

    async def _with_hidden_turns(self, exchange: Exchange, scope: Scope, request: ChatRequest) -> list[Raw]:
        """The client's history with what it never saw of it put back in."""
        if b'"tool_calls"' not in request.raw or not (calls := calls_in(request.messages)):
            return request.messages
        owner = owner_of(exchange, scope)
        keys = {position: owner.key(call.id for call in seen) for position, seen in calls.items()}
        try:
            found = await self.store.get_many(list(keys.values()))
        except StoreError:
            exchange.degraded.add("store")
            return request.messages
        kept = {position: found[key] for position, key in keys.items() if key in found}
        return expand(request.messages, calls, kept) if kept else request.messages

    def _sender(self, exchange: Exchange, prepared: Prepared) -> Sender:
        forwarded, request = exchange.forwarded, prepared.request

        async def send(body: bytes, first: bool) -> tuple[Upstream, UpstreamReply]:
            call = UpstreamRequest(
                "/chat/completions",
                body,
                forwarded.first if first else forwarded.later,
                request.stream,
                prepared.model,
                bearer=forwarded.bearer,
            )
            return await self.routes.send(prepared.upstreams, call)

        return send

    def _runner(self, exchange: Exchange, injection: Injection) -> Callable[[OwnCall], Awaitable[str]]:
        finder = WorkspaceSearcher(self.engine, exchange.principal.workspace) if self.engine is not None else None
        library = ToolRunner(injection.selection, injection.tools or PLAIN_TOOLS, neutral, finder)
        return lambda call: library.run(call.name, call.arguments)

    def _keeper(self, exchange: Exchange, scope: Scope) -> Callable[[HiddenTurn], Awaitable[None]]:
        owner = owner_of(exchange, scope)

        async def keep(hidden: HiddenTurn) -> None:
            try:
                await self.store.put(owner.key(call[0] for call in hidden.calls), hidden.dump(), TTL)
            except StoreError:
                exchange.degraded.add("store")  # the client's view is complete by itself

        return keep


PLAIN_TOOLS = own_tools(())


def recall(snapshot: Snapshot, key: tuple[Hashable, ...]) -> Injection | None:
    known: Injection | None = snapshot.memo.get(key)
    return known


def remember(snapshot: Snapshot, key: tuple[Hashable, ...], injection: Injection) -> None:
    """Keep an injection as long as its snapshot lives, within bounds."""
    selection = injection.selection
    snapshot.memo.put(key, injection, 1 + len(selection.catalogue) + len(selection.dropped))


def scope_key(scope: Scope) -> tuple[Hashable, ...]:
    """What of a scope decides the injection, apart from the snapshot."""
    asked = scope.asked
    return (
        scope.agent and scope.agent.alias,
        scope.profile and scope.profile.alias,
        scope.prompt and scope.prompt.alias,
        scope.node and scope.node.path,
        scope.readers,
        scope.bound,
        asked.language,
        asked.inject,
        asked.budget,
        asked.include,
        asked.exclude,
    )


def owner_of(exchange: Exchange, scope: Scope) -> ConversationOwner:
    principal = exchange.principal
    return ConversationOwner(principal.workspace, principal.key or principal.name, scope.asked.session or "")


def asks_usage(request: ChatRequest) -> bool:
    options = request.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def asks_json(request: ChatRequest) -> bool:
    """Whether the answer has to be one JSON document."""
    wanted = request.get("response_format")
    return isinstance(wanted, dict) and wanted.get("type") in ("json_object", "json_schema")
