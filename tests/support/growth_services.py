"""Text-taking surfaces of retrievers, summaries, evaluation cases, adoption, MCP prompts and item references."""

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

import orjson
from msgspec import Raw
from pydantic import BaseModel

from gateway.conversation.dialects.responses.dialect import RESPONSES
from gateway.conversation.dialects.responses.references import find_references, resolve_references
from gateway.conversation.response_record import ResponseRecord
from gateway.conversation.stored_responses import StoredResponses
from gateway.domain.agent import Prompt
from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.domain.retriever import FoundPassage
from gateway.domain.summary import SummaryOrder
from gateway.edge.manage.adoption import AdoptionRequest
from gateway.edge.manage.evaluation_cases import CaseBody, CaseRunBody
from gateway.edge.manage.routes import parse_json
from gateway.edge.mcp.documents import describe_prompt, list_placeholders, name_argument
from gateway.resources.retriever import RetrieverData, SearchFields
from gateway.retrievers.answers import (
    RetrieverError,
    bound_passages,
    decode_answer,
    read_label,
    read_results,
    read_vector_store,
)
from gateway.retrievers.service import Retrievers
from gateway.settings_sections import SummarySettings
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.summaries.service import make_key
from gateway.summaries.writer import SummaryError, UpstreamWriter, read_answer
from tests.support.growth_surfaces import OWNER, Work, attempt, cut, list_items

NOTHING: Any = None


def answer_search(text: str) -> object:
    """The text as an answer, as every field of a result, and as many results as it has pieces."""
    fields = SearchFields(results="a.b", text="t.u")
    result = {"t": {"u": text}, "title": text, "source": text, "score": text}
    results = [result, *({"t": {"u": piece}, "title": piece} for piece in cut(text))]
    match = {"content": [{"type": "text", "text": piece} for piece in cut(text)], "filename": text}
    works = (
        lambda: decode_answer(text.encode()),
        lambda: read_results(decode_answer(orjson.dumps({"a": {"b": results}})), fields),
        lambda: read_results(results, SearchFields(text=".".join(["t"] * 50))),
        lambda: read_vector_store({"data": [match] * 9}),
        lambda: bound_passages([FoundPassage(text, text, text, 1.0)] * 20, 9, 10_000, 0.5),
        lambda: read_label(text),
    )
    return [refuse_softly(work) for work in works]


def refuse_softly(work: Any) -> object:
    try:
        return attempt(work)
    except (RetrieverError, SummaryError) as refusal:
        return refusal


class NoOptions(BaseModel):
    """Nothing to choose."""


class EchoRetriever:
    """Finds what it is asked."""

    name: ClassVar = "echo"
    options: ClassVar = NoOptions

    @classmethod
    def open(cls, options: Any, parts: Any) -> "EchoRetriever":
        return cls()

    async def search(self, question: str, limit: int) -> Sequence[FoundPassage]:
        return [FoundPassage(question, question, question)]


def ask_retriever(text: str) -> object:
    """The text as a question, and as every field of a policy."""
    data = RetrieverData(plugin="echo", cache_seconds=0).to_retriever()
    resource = Resource(
        "c/r", "c", "retriever", "R", Mode.SEMANTIC, ResourceKind.REFERENCE, "", (), None, 0, False, False, (), (),
        "none", data, "",
    )  # fmt: skip

    async def ask() -> object:
        retrievers = Retrievers({"echo": EchoRetriever}, {}, NOTHING)  # type: ignore[dict-item]
        return await retrievers.look_up("w", resource, text)

    bodies: tuple[dict[str, Any], ...] = (
        {"url": f"https://example.com/{text}"},
        {"url": "https://example.com", "headers": dict.fromkeys(cut(text), "x"), "fields": {"text": text}},
        {"endpoint": text, "parameters": {text: text, "list": cut(text)}},
        {"plugin": text, "options": {text: cut(text)}, text: 1},
    )
    return asyncio.run(ask()), attempt(
        *(lambda body=body: RetrieverData.model_validate(body).target for body in bodies)
    )


def summarize(text: str) -> object:
    """The text as what is summarized, and as what a model answers."""
    settings = SummarySettings(model="m", max_characters=200_000)
    answers = (
        text.encode(),
        orjson.dumps({"choices": [{"message": {"content": text}}], "usage": {text: 1, "prompt_tokens": text}}),
        orjson.dumps({"choices": [{"message": {"content": [piece]}} for piece in cut(text)]}),
    )
    writer = UpstreamWriter(NOTHING, settings)
    return [
        make_key("w", settings, SummaryOrder(text, 100)),
        writer._build_body("m", text, 100),
        *(refuse_softly(lambda answer=answer: read_answer(answer, 100)) for answer in answers),
    ]


def save_case(text: str) -> object:
    pieces = cut(text)
    bodies: tuple[tuple[type[BaseModel], dict[str, Any]], ...] = (
        (CaseBody, {"question": text, "expect": [text], "agent": text, text: text}),
        (CaseBody, {"question": "q", "expect": pieces, "earlier": pieces}),
        (CaseRunBody, {"cases": pieces, "model": text, "as_of": text}),
        (AdoptionRequest, {"objects": [f"contexts/{piece}" for piece in pieces], text: 1}),
        (AdoptionRequest, {"objects": [text, f"contexts/{text}"]}),
    )
    return attempt(*(lambda model=model, body=body: parse_json(model, orjson.dumps(body)) for model, body in bodies))


def fill_mcp_prompt(text: str) -> object:
    """The text as a template, and a placeholder for each of its pieces."""
    templates = (text, "".join(f"{{vars.{piece}}}" for piece in cut(text)), text.replace("a", "{vars.a}"))
    prompts = [Prompt(text, text, template) for template in templates]
    return attempt(
        *(lambda one=one: describe_prompt(one, has_content=True) for one in prompts),
        *(lambda one=one: list(map(name_argument, list_placeholders(one))) for one in prompts),
    )


def refer_to_items(text: str) -> object:
    """As many references as pieces, to items of a response that is kept, and to what nobody has."""
    pieces = cut(text, 32)
    items: list[dict[str, Any]] = [{"type": "item_reference", "id": piece} for piece in pieces[:999]]
    body = {"model": "m", "input": [*items, {"id": text}, *list_items(text)]}
    request = RESPONSES.decode(orjson.dumps(body))
    kept = tuple(RESPONSES.decode(orjson.dumps({"model": "m", "input": list_items(text)})).messages)
    record = ResponseRecord("m", "", (), Raw(b"{}"), kept, kept, (), ())

    async def resolve() -> object:
        stored = StoredResponses(MemoryEphemeralStore())
        await stored.keep(OWNER, "r", record)
        return await resolve_references(stored, OWNER, request, [])

    return attempt(lambda: find_references(request), lambda: asyncio.run(resolve()))


def list_service_surfaces() -> dict[str, tuple[Work, float]]:
    """Each with how much longer its inputs are than usual."""
    return {
        "retriever answer": (answer_search, 4),
        "retriever question and policy": (ask_retriever, 4),
        "summary": (summarize, 4),
        "evaluation case, adoption": (save_case, 2),
        "mcp prompt": (fill_mcp_prompt, 4),
        "item references": (refer_to_items, 2),
    }
