"""What a caller can read without a chat: the resources of a scope, and prompts filled in. MCP clients see this."""

from collections.abc import Mapping
from functools import partial

import msgspec
from msgspec.structs import replace

from gateway.builder.context_builder import ContextOrder
from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.domain.exchange import Exchange
from gateway.domain.injection import OwnTools
from gateway.domain.resource import Resource, ResourceKind
from gateway.domain.retriever import Retriever
from gateway.domain.scope import ContextRequest, Scope
from gateway.domain.selection import NOT_IN_SCOPE, Omission, Selection
from gateway.errors import InvalidRequest
from gateway.injection.compose import apply_template
from gateway.injection.neutral import neutralize
from gateway.injection.tools import PLAIN_TOOLS
from gateway.pipeline import Pipeline
from gateway.retrieval.tool_runner import ToolRunner
from gateway.scopes.context_request import read_context_request
from gateway.scopes.scope import build_scope, require_user_right
from gateway.scopes.session_scope import apply_session, make_session_key
from gateway.semantic.searcher import WorkspaceSearcher
from gateway.sessions.sessions import SessionUse

NO_MESSAGES = b'{"messages":[]}'


class ScopeView(msgspec.Struct, frozen=True):
    """The resources of one scope that its caller may read, and our two tools over them."""

    scope: Scope
    session: SessionUse | None
    resources: tuple[Resource, ...]
    runner: ToolRunner

    def find(self, identity: str) -> Resource | None:
        """A resource by id; what is not in the scope does not exist."""
        return next((one for one in self.resources if one.id == identity), None)


class FilledPrompt(msgspec.Struct, frozen=True):
    """A prompt as a chat request would send it."""

    name: str
    context: str  # the agent's instructions and the blocks, unless the template has taken them
    text: str


async def open_view(pipeline: Pipeline, exchange: Exchange) -> ScopeView:
    """What the exchange's caller can read in the scope that its headers name; raises a GatewayError as a chat would."""
    asked = read_context_request(exchange.context_headers, None)
    if asked.pin or asked.unpin:
        raise InvalidRequest("Sessions are changed by chat requests and the management API.", param=asked.where("pin"))
    session = await _open_session(pipeline, exchange, asked)
    scope = _build_scope(exchange, asked, session)
    selection = await _select(pipeline, exchange, scope, PLAIN_TOOLS)
    offered = offer_everything(selection)
    searcher, workspace = pipeline.searcher, exchange.principal.workspace
    finder = WorkspaceSearcher(searcher, workspace) if searcher is not None else None
    resources = tuple(one.candidate.resource for one in offered.catalogue)
    look_up, off_loop = pipeline.make_look_up(exchange), partial(pipeline.builder.threads.run, workspace)
    runner = ToolRunner(offered, PLAIN_TOOLS, neutralize, finder, look_up=look_up, off_loop=off_loop)
    return ScopeView(scope, session, resources, runner)


async def fill_prompt(
    pipeline: Pipeline, exchange: Exchange, alias: str, question: str, variables: Mapping[str, str]
) -> FilledPrompt:
    """The prompt with its contexts, as a chat request with this user text would send it."""
    asked = read_context_request(exchange.context_headers, None)
    session = await _open_session(pipeline, exchange, asked)
    scope = _build_scope(exchange, replace(asked, prompt=alias, vars=dict(variables)), session)
    assert scope.prompt is not None
    request = CHAT.decode(msgspec.json.encode({"messages": [{"role": "user", "content": question}]}))
    order = ContextOrder(exchange, scope, _choose_counter(pipeline), None, request)
    injection = await pipeline.builder.build(order)
    exchange.note_injection(injection)
    content = await pipeline.read_content(exchange, scope)
    templated = apply_template(CHAT, request.messages, scope, injection, content)
    placed = templated.texts.stable or templated.texts.volatile
    instructions = scope.agent.instructions if scope.agent is not None else ""
    context = "\n\n".join(part for part in (instructions, injection.block if placed else "") if part)
    return FilledPrompt(scope.prompt.name, context, CHAT.read_last_user_text(templated.messages))


def offer_everything(selection: Selection) -> Selection:
    """The selection with nothing placed: what a chat would have in its text is offered like the rest."""
    placed = (Omission(one.candidate) for one in selection.stable if one.candidate.resource.kind != ResourceKind.TOOL)
    # Those that every chat asks: without a question, none of them has found anything.
    left = (one for one in selection.dropped if one.reason not in NOT_IN_SCOPE)
    retrievers = (Omission(one.candidate) for one in left if isinstance(one.candidate.resource.data, Retriever))
    known: dict[str, Omission] = {}
    for omission in (*placed, *selection.catalogue, *retrievers):
        known.setdefault(omission.candidate.resource.id, omission)
    return replace(selection, stable=(), volatile=(), catalogue=tuple(known.values()))


async def _select(pipeline: Pipeline, exchange: Exchange, scope: Scope, tools: OwnTools) -> Selection:
    order = ContextOrder(exchange, scope, _choose_counter(pipeline), tools, CHAT.decode(NO_MESSAGES))
    injection = await pipeline.builder.build(order)
    exchange.degraded |= injection.selection.degraded
    return injection.selection


def _choose_counter(pipeline: Pipeline) -> str:
    """The model whose tokens are counted: nobody says which one will read it."""
    return pipeline.defaults.model or ""


async def _open_session(pipeline: Pipeline, exchange: Exchange, asked: ContextRequest) -> SessionUse | None:
    """The session that the headers name, which is only read."""
    if not asked.session:
        return None
    require_user_right(asked, exchange.principal)
    use = await pipeline.sessions.open(make_session_key(asked, exchange.principal), exchange.degraded)
    return replace(use, current=use.session)


def _build_scope(exchange: Exchange, asked: ContextRequest, use: SessionUse | None) -> Scope:
    principal, snapshot = exchange.principal, exchange.snapshot
    if use is None:
        return build_scope(asked, None, principal, snapshot)
    return build_scope(apply_session(asked, use.current, principal, snapshot), None, principal, snapshot, use.current)
