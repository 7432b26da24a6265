"""The built-in retriever: one request to a search endpoint; redirects are not followed."""

import asyncio
from collections.abc import Sequence
from importlib import import_module
from typing import Any, ClassVar, Self

import msgspec
import orjson

from gateway.domain.retriever import FoundPassage
from gateway.links.guard import LinkGuard
from gateway.resources.retriever import HTTP, HttpSearchOptions
from gateway.retrievers.answers import RetrieverError, decode_answer, read_results, read_vector_store
from gateway.retrievers.registry import RetrieverParts

FETCH = "gateway.retrievers.fetch"
MAX_BYTES = 1024 * 1024  # of an answer, which is parsed on the event loop


class SearchRequest(msgspec.Struct, frozen=True):
    """One request to an endpoint."""

    method: str
    url: str
    query: dict[str, str]
    body: bytes | None
    headers: dict[str, str]


class HttpRetriever(msgspec.Struct, frozen=True):
    """Asks one endpoint."""

    name: ClassVar = HTTP
    options: ClassVar = HttpSearchOptions

    search_options: HttpSearchOptions
    url: str
    headers: dict[str, str]
    guard: LinkGuard | None  # None: the operator named the address

    @classmethod
    def open(cls, options: HttpSearchOptions, parts: RetrieverParts) -> Self:
        if options.endpoint is None:
            return cls(options, options.url or "", options.headers, parts.guard)
        known = parts.endpoints.get(options.endpoint)
        if known is None or not known.is_for(parts.workspace):
            raise RetrieverError(f"there is no endpoint {options.endpoint!r} under retrievers in the configuration")
        return cls(options, known.url, known.headers, None)

    async def search(self, question: str, limit: int) -> Sequence[FoundPassage]:
        # Its HTTP client is imported by whoever asks the first endpoint, and by nobody on the event loop.
        module = await asyncio.to_thread(import_module, FETCH)
        body: bytes = await module.fetch_answer(self._build_request(question, limit), self.guard, MAX_BYTES)
        answer, options = decode_answer(body), self.search_options
        return read_vector_store(answer) if options.format == "openai" else read_results(answer, options.fields)

    def _build_request(self, question: str, limit: int) -> SearchRequest:
        options = self.search_options
        names = options.fields
        asked: dict[str, Any] = {names.query: question, names.limit: limit}
        if options.format == "openai":
            asked = {"query": question, "max_num_results": limit}
        said = options.parameters | asked
        headers = {"User-Agent": "context-gateway", "Accept": "application/json", **self.headers}
        headers["Accept-Encoding"] = "identity"
        if options.method == "GET":
            query = {name: one if isinstance(one, str) else orjson.dumps(one).decode() for name, one in said.items()}
            return SearchRequest("GET", self.url, query, None, headers)
        headers = {"Content-Type": "application/json", **headers}
        return SearchRequest("POST", self.url, {}, orjson.dumps(said), headers)
