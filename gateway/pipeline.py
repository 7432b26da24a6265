"""The walk of one request: prepare it, then converse. Rooms meet here and nowhere else."""

from dataclasses import dataclass
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
from gateway.domain.scope import Scope
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
from gateway.scopes.scope import build_scope, choose_model
from gateway.semantic.searcher import SemanticSearcher, WorkspaceSearcher
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

    async def prepare(self, exchange: Exchange, body: bytes) -> PreparedRequest:
        """From bytes to the exact outgoing request."""
        request = decode_chat(body)
        exchange.note_time("decode")
        asked = read_context_request(exchange.context_headers, request.fields.get("context"))
        scope = build_scope(asked, request.model, exchange.principal, exchange.snapshot)
        model = choose_model(request.model, scope, self.defaults.model)
        require_model(exchange.principal, model)
        require_one_model(exchange.principal, body)
        exchange.note_scope(scope, model, request.model)
        exchange.note_time("scope")
        upstreams = self.routes.get_candidates(model)
        can = intersect_capabilities(upstreams)
        client = read_client_tools(request)
        tools = choose_own_tools(request, client) if can.tools else None
        injection = await self.builder.build(ContextOrder(exchange, scope, model, tools, request.messages))
        exchange.note_injection(injection)
        exchange.note_time("build")
        if injection.texts or injection.tools is not None:
            check_messages(request.messages)
        owner = ConversationOwner.from_principal(exchange.principal, asked.user, asked.session)
        history = await self.hidden_turns.restore(owner, request, injection.selection, exchange.degraded)
        target = choose_target(model, scope, can, self.defaults.placement)
        outgoing = compose(request, history, scope, injection, target)
        max_turns = scope.max_turns or self.defaults.max_turns
        plan = plan_turns(request, outgoing, client, injection.tools, can, TurnLimits(max_turns, self.reply_bytes))
        exchange.note_time("compose")
        return PreparedRequest(request, owner, scope, model, upstreams, injection, outgoing, plan)

    async def converse(self, exchange: Exchange, prepared: PreparedRequest) -> Reply:
        """Record it, send it, run our tools in between, and return the client's reply."""
        receipts = self.receipts
        if receipts is None:
            return await self._send(exchange, prepared)
        if (committing := receipts.start(exchange, prepared.request.raw)) is not None:
            await committing
        return receipts.watch(exchange, await self._send(exchange, prepared))

    async def _send(self, exchange: Exchange, prepared: PreparedRequest) -> Reply:
        stream = prepared.request.stream
        sender = ChatSender(self.routes, prepared.upstreams, prepared.model, stream, exchange.forwarded)
        if prepared.plan is None:
            return await Conversation(exchange, sender.send, timings=self.timings).relay(prepared.body)
        runner = self._make_runner(exchange, prepared.injection)

        async def run(call: FunctionCall) -> ToolResult:
            began = perf_counter()
            result = await runner.run(call.name, call.arguments)
            exchange.note_tool(call.name, call.arguments, result, perf_counter() - began)
            return result

        async def keep(turn: HiddenTurn) -> None:
            await self.hidden_turns.keep(prepared.owner, prepared.request, turn, exchange.degraded)

        conversation = Conversation(exchange, sender.send, run, keep, self.timings)
        if stream:
            return await conversation.stream(StreamLoop(prepared.plan))
        return await conversation.answer(ReplyLoop(prepared.plan))

    def _make_runner(self, exchange: Exchange, injection: Injection) -> ToolRunner:
        assert injection.tools is not None
        workspace = exchange.principal.workspace
        finder = WorkspaceSearcher(self.searcher, workspace) if self.searcher is not None else None
        return ToolRunner(injection.selection, injection.tools, neutralize, finder)
