"""The walk of one request: prepare it, then converse. Rooms meet here and nowhere else."""

from dataclasses import dataclass, field, replace
from time import perf_counter

from gateway.builder.context_builder import ContextBuilder, ContextOrder
from gateway.conversation.calls import FunctionCall
from gateway.conversation.conversation import DEFAULT_TIMINGS, Conversation, ConversationTimings
from gateway.conversation.hidden_turn import HiddenTurn
from gateway.conversation.hidden_turns import ConversationOwner, HiddenTurns
from gateway.conversation.loop import REPLY_BYTES, LoopPlan, TurnLimits, plan_turns
from gateway.conversation.reply_loop import ReplyLoop
from gateway.conversation.stream_loop import StreamLoop
from gateway.domain.chat import ChatRequest, OutgoingBody
from gateway.domain.exchange import Exchange, Reply
from gateway.domain.injection import Injection
from gateway.domain.scope import ContextRequest, Scope
from gateway.domain.tool_result import ToolResult
from gateway.domain.upstream import Upstream, intersect_capabilities
from gateway.injection.compose import choose_target, compose, encode_body
from gateway.injection.neutral import neutralize
from gateway.injection.tools import choose_own_tools, read_client_tools
from gateway.receipts.recorder import ReceiptRecorder
from gateway.retrieval.tool_runner import ToolRunner
from gateway.scopes.chat_body import check_messages, decode_chat
from gateway.scopes.context_request import read_context_request
from gateway.scopes.model_rights import require_model, require_one_model
from gateway.scopes.scope import build_scope, choose_model, require_user_right
from gateway.scopes.session_scope import announce_content, apply_session, check_pinned, make_session_key
from gateway.semantic.searcher import SemanticSearcher, WorkspaceSearcher
from gateway.sessions.changes import SessionChange
from gateway.sessions.sessions import Sessions, SessionUse
from gateway.settings import DefaultSettings
from gateway.upstreams.routes import ChatSender, Routes


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request that only has to be sent."""

    request: ChatRequest
    owner: ConversationOwner
    scope: Scope
    model: str
    upstreams: tuple[Upstream, ...]
    injection: Injection
    outgoing: OutgoingBody
    plan: LoopPlan | None  # None: no tools of ours, so the reply is relayed
    session: SessionUse | None = None

    @property
    def body(self) -> bytes:
        """The body of the first upstream call."""
        return encode_body(self.request, self.outgoing) if self.plan is None else ReplyLoop(self.plan).build_request()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Everything that the walk of a request needs, built once."""

    routes: Routes
    builder: ContextBuilder
    hidden_turns: HiddenTurns
    defaults: DefaultSettings
    searcher: SemanticSearcher | None = None  # for our tools; None: they search by words
    timings: ConversationTimings = DEFAULT_TIMINGS
    reply_bytes: int = REPLY_BYTES  # of all turns of an exchange
    receipts: ReceiptRecorder | None = None
    sessions: Sessions = field(default_factory=Sessions)

    async def prepare(self, exchange: Exchange, body: bytes) -> PreparedRequest:
        """From bytes to the exact outgoing request."""
        request = decode_chat(body)
        exchange.note_time("decode")
        asked = read_context_request(exchange.context_headers, request.fields.get("context"))
        session = await self._open_session(exchange, asked) if asked.session else None
        scope = self._build_scope(exchange, asked, request.model, session)
        model = choose_model(request.model, scope, self.defaults.model)
        require_model(exchange.principal, model)
        require_one_model(exchange.principal, body)
        exchange.note_scope(scope, model, request.model)
        exchange.note_time("scope")
        upstreams = self.routes.get_candidates(model)
        can = intersect_capabilities(upstreams)
        client = read_client_tools(request)
        tools = choose_own_tools(request, client) if can.tools else None
        injection = await self.builder.build(ContextOrder(exchange, scope, model, tools, request.messages, request))
        exchange.note_injection(injection)
        exchange.note_time("build")
        if injection.texts or injection.tools is not None:
            check_messages(request)
        owner = ConversationOwner.from_principal(exchange.principal, asked.user, asked.session)
        history = await self.hidden_turns.restore(owner, request, injection.selection, exchange.degraded)
        target = choose_target(model, scope, can, self.defaults.placement)
        outgoing = compose(request, history, scope, injection, target)
        max_turns = scope.max_turns or self.defaults.max_turns
        plan = plan_turns(request, outgoing, client, injection.tools, can, TurnLimits(max_turns, self.reply_bytes))
        exchange.note_time("compose")
        return PreparedRequest(request, owner, scope, model, upstreams, injection, outgoing, plan, session)

    async def converse(self, exchange: Exchange, prepared: PreparedRequest) -> Reply:
        """Record it, send it, run our tools in between, and return the client's reply."""
        session, receipts = prepared.session, self.receipts
        if session is not None:
            change = find_session_change(prepared.scope, session)
            await self.sessions.save(session, lambda state: change.apply(state, exchange.snapshot), exchange.degraded)
        if receipts is None:
            return await self._send(exchange, prepared)
        if (committing := receipts.start(exchange, prepared.request.raw)) is not None:
            await committing
        return receipts.watch(exchange, await self._send(exchange, prepared))

    async def _send(self, exchange: Exchange, prepared: PreparedRequest) -> Reply:
        session, stream = prepared.session, prepared.request.stream
        sender = ChatSender(self.routes, prepared.upstreams, prepared.model, stream, exchange.forwarded)
        if prepared.plan is None:
            return await Conversation(exchange, sender.send, timings=self.timings).relay(prepared.body)
        runner = self._make_runner(exchange, prepared.injection)

        async def run(call: FunctionCall) -> ToolResult:
            began = perf_counter()
            result = await runner.run(call.name, call.arguments)
            exchange.note_tool(call.name, call.arguments, result, perf_counter() - began)
            if session is not None and call.name == runner.tools.get and session.retains:
                await self.sessions.retain(session, result.resources, exchange.degraded)
            return result

        async def keep(turn: HiddenTurn) -> None:
            await self.hidden_turns.keep(prepared.owner, prepared.request, turn, exchange.degraded)

        conversation = Conversation(exchange, sender.send, run, keep, self.timings)
        if stream:
            return await conversation.stream(StreamLoop(prepared.plan))
        return await conversation.answer(ReplyLoop(prepared.plan))

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

    def _make_runner(self, exchange: Exchange, injection: Injection) -> ToolRunner:
        assert injection.tools is not None
        workspace = exchange.principal.workspace
        finder = WorkspaceSearcher(self.searcher, workspace) if self.searcher is not None else None
        return ToolRunner(injection.selection, injection.tools, neutralize, finder)


def find_session_change(scope: Scope, session: SessionUse) -> SessionChange:
    """What a request changes in its session: items by name, and the content if the request itself names one."""
    asked = scope.request
    content = scope.node.path if scope.node is not None and session.names_content else None
    return SessionChange(asked.pin, asked.unpin, content)
