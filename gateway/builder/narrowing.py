"""Narrows a client's own tools to those that are relevant to its question; whatever fails leaves all of them."""

from gateway.domain.agent import ClientToolLimit
from gateway.domain.chat import ChatRequest
from gateway.domain.exchange import Exchange
from gateway.domain.injection import ClientTools
from gateway.injection.narrowed_tools import MOST_SCORED, find_required, list_client_tools, narrow_tools
from gateway.semantic.search.sentences import split_question
from gateway.semantic.searcher import SemanticSearcher


async def narrow_client_tools(
    exchange: Exchange,
    request: ChatRequest,
    client: ClientTools,
    limit: ClientToolLimit,
    searcher: SemanticSearcher | None,
) -> ClientTools:
    """The tools to send; the exchange notes which were left out, or that they could not be compared."""
    question = request.dialect.find_question(request.messages)
    if searcher is None or limit.narrow is None or question is None or len(client.tools) > MOST_SCORED:
        return client
    tools = list_client_tools(request.dialect, client)
    query, texts = split_question(question), [tool.text for tool in tools]
    scores = await searcher.score_texts(exchange.principal.workspace, query, texts)
    if scores is None:
        exchange.degraded.add("semantic")
        return client
    narrowed = narrow_tools(tools, scores, find_required(tools, client, request, limit.keep), limit.narrow, client)
    exchange.omitted_tools = narrowed.omitted
    return narrowed.client
