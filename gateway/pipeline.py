"""The walk of one request: prepare it, then converse. Rooms meet here and nowhere else."""

from collections.abc import Awaitable, Hashable
from functools import partial
from time import perf_counter

import msgspec
from msgspec.structs import replace

from gateway.builder.context_builder import ContextBuilder, ContextOrder
from gateway.builder.narrowing import narrow_client_tools
from gateway.builder.result_expansion import ResultExpansion
from gateway.content.library import PREFIX, NodeLibrary, ReadableNodes
from gateway.content.reach import ReachableContext
from gateway.content.reader import WorkspaceContent
from gateway.conversation.conversation import DEFAULT_TIMINGS, Conversation, ConversationTimings
from gateway.conversation.dialect import Dialect
from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.conversation.dialects.responses.continuation import resume, screen
from gateway.conversation.dialects.responses.keeping import ResponseKeeper, wants_keeping
from gateway.conversation.dialects.responses.references import resolve_references, stands_alone
from gateway.conversation.hidden_turn import HiddenTurn
from gateway.conversation.hidden_turns import ConversationOwner, HiddenTurns
from gateway.conversation.loop import LoopTerms, TurnLoop, plan_turns
from gateway.conversation.object_guard import ObjectGuard
from gateway.conversation.reply_loop import ReplyLoop
from gateway.conversation.stored_responses import StoredResponses
from gateway.conversation.stream_loop import StreamLoop
from gateway.conversation.turn import REPLY_BYTES, FunctionCall, LoopPlan, TurnLimits
from gateway.domain.agent import TextJoin
from gateway.domain.chat import ChatRequest, OutgoingBody
from gateway.domain.content import NO_CONTENT
from gateway.domain.exchange import Exchange, Reply
from gateway.domain.injection import NO_TOOLS, ClientTools, Injection
from gateway.domain.resource import Resource
from gateway.domain.retriever import Lookup, Retriever
from gateway.domain.scope import ContextRequest, Scope
from gateway.domain.snapshot import Snapshot
from gateway.domain.tool import CallableTool, ToolEndpoint, ToolOutcome
from gateway.domain.tool_result import ToolResult
from gateway.domain.upstream import Capabilities, Upstream, intersect_capabilities
from gateway.errors import StoreError
from gateway.injection.called_tools import IsAvailable, settle_called_tools
from gateway.injection.compose import choose_target, compose, encode_body
from gateway.injection.neutral import neutralize
from gateway.injection.tools import choose_own_tools, withhold_tools
from gateway.links.guard import LinkGuard
from gateway.receipts.recorder import ReceiptRecorder
from gateway.receipts.reported import note_usage
from gateway.resolved_scope import REMEMBERED_BYTES, RESOLVED_BYTES, ResolvedScope, count_names, remember_usual
from gateway.retrieval.tool_runner import LookUp, ToolRunner
from gateway.retrievers.service import Retrievers
from gateway.scopes.content_suggestion import ContentSuggester
from gateway.scopes.context_request import read_context_request
from gateway.scopes.model_rights import require_model, require_one_model
from gateway.scopes.scope import build_scope, choose_model, require_user_right
from gateway.scopes.session_scope import announce_content, apply_session, check_pinned, make_session_key
from gateway.semantic.searcher import SemanticSearcher, WorkspaceSearcher
from gateway.sessions.changes import SessionChange
from gateway.sessions.sessions import Sessions, SessionUse, find_session_change
from gateway.settings import DefaultSettings
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.tools.caller import ToolCaller
from gateway.tools.servers import ToolServers
from gateway.upstreams.routes import Routes, TurnSender


class PreparedRequest(msgspec.Struct):
    """A request that only has to be sent."""

    dialect: Dialect
    request: ChatRequest
    owner: ConversationOwner
    scope: Scope
    model: str
    upstreams: tuple[Upstream, ...]
    can: Capabilities  # all of them
    injection: Injection
    outgoing: OutgoingBody
    plan: LoopPlan | None  # None: no tools of ours, so the reply is relayed
    session: SessionUse | None = None
    asked: ChatRequest | None = None  # as the client sent it, without what it continues
    loop: TurnLoop | None = None  # that carries out the plan

    @property
    def body(self) -> bytes:
        """The body of the first upstream call."""
        return encode_body(self.request, self.outgoing) if self.plan is None else ReplyLoop(self.plan).build_request()


class Pipeline(msgspec.Struct, frozen=True):
    """Everything that the walk of a request needs, built once."""

    routes: Routes
    builder: ContextBuilder
    hidden_turns: HiddenTurns
    defaults: DefaultSettings
    searcher: SemanticSearcher | None = None  # for our tools; None: they search by words
    timings: ConversationTimings = DEFAULT_TIMINGS
    reply_bytes: int = REPLY_BYTES  # of all turns of an exchange
    receipts: ReceiptRecorder | None = None
    sessions: Sessions = msgspec.field(default_factory=Sessions)
    suggester: ContentSuggester | None = None
    tools: ToolCaller = msgspec.field(default_factory=lambda: ToolCaller(ToolServers()))
    content: WorkspaceContent | None = None
    library: NodeLibrary | None = None
    responses: StoredResponses = msgspec.field(default_factory=lambda: StoredResponses(MemoryEphemeralStore()))
    retrievers: Retrievers = msgspec.field(default_factory=lambda: Retrievers({}, {}, LinkGuard()))
    objects: ObjectGuard = msgspec.field(default_factory=lambda: ObjectGuard({}))
    reads_usage: bool = False  # of replies, for the log and the receipts

    async def prepare(self, exchange: Exchange, body: bytes, dialect: Dialect = CHAT) -> PreparedRequest:
        """From bytes to the exact outgoing request."""
        times = exchange.times
        asked = request = dialect.decode(body)
        times.append(perf_counter())
        resolved = self._recall(exchange, request) or await self._resolve(exchange, request)
        if self.objects.active:
            await self.objects.check(resolved.owner, request, resolved.upstreams)
        if dialect.keeps_replies and not stands_alone(request):
            asked = await resolve_references(self.responses, resolved.owner, request, resolved.upstreams)
            request = await resume(self.responses, resolved.owner, asked, resolved.upstreams)
        scope, session = resolved.scope, resolved.session
        exchange.note_scope(scope, resolved.model, request.model)
        if scope.node is not None or session is not None:
            exchange.suggested = await self._suggest_content(exchange, scope, request)
        times.append(perf_counter())
        usual = resolved.usual
        if usual is not None and usual.suits(request):
            client, injection, is_placed = NO_TOOLS, usual.injection, usual.has_texts
        else:
            client = dialect.read_client_tools(request)
            if client.tools and scope.agent is not None and scope.agent.client_tools.is_exceeded(len(client.tools)):
                client = await narrow_client_tools(exchange, request, client, scope.agent.client_tools, self.searcher)
            injection = await self._inject(exchange, request, client, resolved)
            is_placed = bool(injection.texts) or injection.tools is not None
        exchange.note_injection(injection)
        times.append(perf_counter())
        if is_placed:
            dialect.check_messages(request)
        history = request.messages
        if request.continued is not None or dialect.may_answer_calls(request):
            reachable = ReachableContext(injection.selection, self._open_nodes(exchange, scope))
            if request.continued is not None:  # it has its hidden turns
                request = screen(request, reachable)
                history = request.messages
            elif not request.replaced:
                restore = self.hidden_turns.restore
                history = await restore(dialect, resolved.owner, request, reachable, exchange.degraded)
        body_text = "" if scope.prompt is None or scope.node is None else await self.read_content(exchange, scope)
        outgoing = compose(request, history, scope, injection, resolved.target, body_text)
        if exchange.omitted_tools:
            outgoing.fields["tools"], outgoing.unchanged = client.tools, False
        plan, own = None, injection.tools
        if own is not None:
            plan = plan_turns(dialect, request, outgoing, client, own, self._choose_terms(resolved))
        times.append(perf_counter())
        return PreparedRequest(
            dialect,
            request,
            resolved.owner,
            scope,
            resolved.model,
            resolved.upstreams,
            resolved.can,
            injection,
            outgoing,
            plan,
            session,
            asked,
        )

    def _choose_terms(self, resolved: ResolvedScope) -> LoopTerms:
        scope = resolved.scope
        limits = TurnLimits(scope.max_turns or self.defaults.max_turns, self.reply_bytes)
        return LoopTerms(resolved.can, limits, scope.agent.join if scope.agent is not None else TextJoin.ALL)

    async def _inject(
        self, exchange: Exchange, request: ChatRequest, client: ClientTools, resolved: ResolvedScope
    ) -> Injection:
        """The injection, with our tools if they can be called: in the last turn the client's come first."""
        tools = choose_own_tools(request, client) if resolved.can.tools else None
        turns = resolved.scope.max_turns or self.defaults.max_turns
        offered = tools if turns > 1 or not client.tools else None
        scope, model, placement = resolved.scope, resolved.model, resolved.target.placement
        order = ContextOrder(exchange, scope, model, offered, request, placement, resolved.keys)
        known = self.builder.recall(order)
        if known is not None:
            remember_usual(self._make_key(exchange, request), order, resolved, known, self.builder.windows)
        injection = known.injection if known is not None else await self.builder.build(order)
        if tools is not offered:
            injection = withhold_tools(injection, tools)
        if injection.tools is None or not injection.tools.called:
            return injection
        count = partial(self.builder.counter.count, model=model)
        return settle_called_tools(injection, client, self._find_availability(exchange), count)

    async def converse(self, exchange: Exchange, prepared: PreparedRequest) -> Reply:
        """Record it, send it, run our tools in between, and return the client's reply."""
        receipts, node = self.receipts, prepared.scope.node
        if node is not None and self.content is not None:
            principal = exchange.principal
            actor = principal.name_actor(prepared.scope.request.user)
            self.content.note_view(principal.workspace, actor, node.id)
        if prepared.session is not None:
            await self.save_session(exchange, prepared)
        if receipts is not None and (committing := receipts.start(exchange, prepared.request.raw)) is not None:
            await committing
        reply = await self._send(exchange, prepared)
        if prepared.dialect.keeps_replies and (kept := self._keep(exchange, prepared, reply)) is not None:
            await kept
        if self.reads_usage and reply.stream is None:
            note_usage(exchange, reply)
        return reply if receipts is None else receipts.watch(exchange, reply)

    async def save_session(self, exchange: Exchange, prepared: PreparedRequest) -> None:
        """Store what the request changes in its session, if it has one."""
        session = prepared.session
        if session is not None:
            change = find_session_change(prepared.scope, session, prepared.injection.sticky)
            await self.sessions.save(session, lambda state: change.apply(state, exchange.snapshot), exchange.degraded)

    def _send(self, exchange: Exchange, prepared: PreparedRequest) -> Awaitable[Reply]:
        dialect, request = prepared.dialect, prepared.request
        names = (prepared.model, dialect.name, dialect.upstream_path)
        sender = TurnSender(self.routes, prepared.upstreams, *names, request.stream, exchange.forwarded)
        if prepared.plan is not None:
            return self._send_turns(exchange, prepared, prepared.plan, sender)
        relaying = Conversation(exchange, dialect, sender.send, timings=self.timings)
        return relaying.relay(encode_body(request, prepared.outgoing), request, prepared.outgoing)

    def _send_turns(
        self, exchange: Exchange, prepared: PreparedRequest, plan: LoopPlan, sender: TurnSender
    ) -> Awaitable[Reply]:
        """Send it as often as the model calls tools of ours, and run them in between."""
        dialect, session = prepared.dialect, prepared.session
        runner = self._make_runner(exchange, prepared)
        expansion = self._make_expansion(exchange, prepared)

        async def run(call: FunctionCall) -> ToolResult:
            began, placed = perf_counter(), runner.tools.called.get(call.name)
            result = await runner.run(call.name, call.arguments)
            exchange.note_tool(call.name, call.arguments, result, perf_counter() - began, placed)
            if expansion is not None and placed is not None and not result.failed:
                result = await expansion.expand(call.name, result)
                runner.tools = expansion.tools
            if session is not None and call.name == runner.tools.get and prepared.scope.retains:
                fetched = [id for id in result.resources if is_retained(id, exchange.snapshot)]
                await self.sessions.retain(session, fetched, exchange.degraded)
            return result

        async def keep(turn: HiddenTurn) -> None:
            await self.hidden_turns.keep(dialect, prepared.owner, prepared.request, turn, exchange.degraded)

        conversation = Conversation(exchange, dialect, sender.send, run, keep, self.timings)
        prepared.loop = loop = StreamLoop(plan) if prepared.request.stream else ReplyLoop(plan)
        return conversation.stream(loop) if isinstance(loop, StreamLoop) else conversation.answer(loop)

    def _keep(self, exchange: Exchange, prepared: PreparedRequest, reply: Reply) -> Awaitable[None] | None:
        """Keep a reply if the client wants to come back to it; what is returned has to be awaited."""
        request, asked = prepared.request, prepared.asked or prepared.request
        if reply.status >= 400 or not wants_keeping(asked):
            return None
        native = prepared.dialect.name in prepared.can.dialects
        owner, outgoing, model = prepared.owner, prepared.outgoing, prepared.model
        keeper = ResponseKeeper(self.responses, owner, asked, request, outgoing, model, native, exchange)
        return keeper.keep(reply, prepared.loop)

    def _recall(self, exchange: Exchange, request: ChatRequest) -> ResolvedScope | None:
        """What another request of the same caller with the same headers and model came to, if that is known."""
        partition = exchange.snapshot.partitions.get(exchange.principal.workspace)
        if partition is None or "context" in request.fields:
            return None
        found: ResolvedScope | None = partition.get(self._make_key(exchange, request))
        if found is None or found.principal is not exchange.principal:
            return None
        if found.tree_generation != exchange.snapshot.tree_generation:
            return None
        if found.principal.models is not None:
            require_one_model(found.principal, request.raw)
        return found

    async def _resolve(self, exchange: Exchange, request: ChatRequest) -> ResolvedScope:
        """Look up every name in the request; remembered unless it is about one user, task or session."""
        principal = exchange.principal
        asked = read_context_request(exchange.context_headers, request.fields.get("context"))
        session = await self._open_session(exchange, asked) if asked.session else None
        scope = self._build_scope(exchange, asked, request.model, session)
        model = choose_model(request.model, scope, self.defaults.model)
        require_model(principal, model)
        require_one_model(principal, request.raw)
        upstreams = self.routes.get_candidates(model)
        can = intersect_capabilities(upstreams)
        target = choose_target(model, scope, can, self.defaults.placement)
        owner = ConversationOwner.from_principal(principal, asked.user, asked.session)
        tree = exchange.snapshot.tree_generation
        resolved = ResolvedScope(principal, scope, model, upstreams, can, target, owner, session, tree)
        said = count_names(exchange, request)
        if "context" not in request.fields and not (asked.user or asked.task or session) and said <= REMEMBERED_BYTES:
            partition = self.builder.open_partition(exchange.snapshot, principal.workspace)
            partition.put(self._make_key(exchange, request), resolved, RESOLVED_BYTES + 3 * said)
        return resolved

    def _make_key(self, exchange: Exchange, request: ChatRequest) -> Hashable:
        return (self.routes, id(exchange.principal), tuple(exchange.context_headers), request.model, request.dialect)

    async def _open_session(self, exchange: Exchange, asked: ContextRequest) -> SessionUse:
        """The session as this request leaves it; nothing is stored before the request is sent."""
        principal, snapshot = exchange.principal, exchange.snapshot
        require_user_right(asked, principal)
        key = make_session_key(asked, principal)
        check_pinned(asked, principal, snapshot)
        use = await self.sessions.open(key, exchange.degraded)
        current = SessionChange(asked.pin, asked.unpin).apply(use.session, snapshot)
        return replace(use, current=current, names_content=asked.content is not None)

    def _build_scope(
        self, exchange: Exchange, asked: ContextRequest, model: str | None, use: SessionUse | None
    ) -> Scope:
        principal, snapshot = exchange.principal, exchange.snapshot
        if use is None:
            return build_scope(asked, model, principal, snapshot)
        session = use.current
        asked = apply_session(asked, session, principal, snapshot)
        scope = build_scope(asked, model, principal, snapshot, session)
        note = announce_content(session, scope.node.path if scope.node is not None else None, snapshot)
        return replace(scope, request=replace(asked, items=(*asked.items, *note))) if note else scope

    async def _suggest_content(self, exchange: Exchange, scope: Scope, request: ChatRequest) -> str | None:
        """Other content that the user named, where the request is about content at all."""
        if self.suggester is None or not (scope.takes_part and scope.request.inject):
            return None
        return await self.suggester.suggest(exchange, scope, request)

    async def read_content(self, exchange: Exchange, scope: Scope) -> str:
        """The text of the node for a template that asks for it; "" if the store does not answer."""
        if self.content is None or scope.node is None or scope.prompt is None or not scope.prompt.uses_content:
            return ""
        try:
            found = await self.content.read(exchange.principal.workspace, [scope.node.id])
        except StoreError:
            exchange.degraded.add("content")
            return ""
        return found.get(scope.node.id, NO_CONTENT).body

    def _find_availability(self, exchange: Exchange) -> IsAvailable:
        """Which tools can be called now."""
        workspace, servers = exchange.principal.workspace, self.tools.servers
        return lambda tool: isinstance(tool.target, ToolEndpoint) or servers.is_available(workspace, tool.target)

    def _make_expansion(self, exchange: Exchange, prepared: PreparedRequest) -> ResultExpansion | None:
        """What results of tools may bring, if the agent wants that."""
        agent, tools = prepared.scope.agent, prepared.injection.tools
        if agent is None or not agent.tool_expansion or tools is None or not tools.called:
            return None
        order = ContextOrder(exchange, prepared.scope, prepared.model, tools, prepared.request)
        client, is_available = prepared.dialect.read_client_tools(prepared.request), self._find_availability(exchange)
        return ResultExpansion(
            self.builder, order, prepared.injection, tools, client, is_available, agent.tool_expansion
        )

    def _open_nodes(self, exchange: Exchange, scope: Scope) -> ReadableNodes | None:
        """The nodes that our tools can fetch."""
        if scope.node is None or self.library is None or not (scope.takes_part and scope.request.inject):
            return None
        workspace, snapshot = exchange.principal.workspace, exchange.snapshot
        return self.library.open(workspace, snapshot, scope.node, scope.readers, exchange.degraded.add)

    def _make_runner(self, exchange: Exchange, prepared: PreparedRequest) -> ToolRunner:
        injection, workspace = prepared.injection, exchange.principal.workspace
        assert injection.tools is not None
        finder = WorkspaceSearcher(self.searcher, workspace) if self.searcher is not None else None

        async def call(tool: CallableTool, arguments: str) -> ToolOutcome:
            outcome = await self.tools.call(workspace, tool, arguments, prepared.scope.tool_permission)
            if outcome.unavailable:
                exchange.degraded.add("mcp")
            return outcome

        nodes, look_up = self._open_nodes(exchange, prepared.scope), self.make_look_up(exchange)
        off_loop = partial(self.builder.threads.run, workspace)
        return ToolRunner(injection.selection, injection.tools, neutralize, finder, call, nodes, look_up, off_loop)

    def make_look_up(self, exchange: Exchange) -> LookUp:
        """Asks retrievers on behalf of the exchange's caller."""

        async def look_up(resource: Resource, query: str) -> Lookup:
            lookup = await self.retrievers.look_up(exchange.principal.workspace, resource, query)
            if lookup.failure is not None:
                exchange.degraded.add("links")
            return lookup

        return look_up


def is_retained(id: str, snapshot: Snapshot) -> bool:
    """Whether a session keeps what was fetched: nodes change, and what is looked up belongs to one question."""
    resource = snapshot.resources.get(id)
    return not id.startswith(PREFIX) and (resource is None or not isinstance(resource.data, Retriever))
