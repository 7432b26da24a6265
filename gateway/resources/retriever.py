"""retriever: passages that a search endpoint or a plugin finds for each question."""

from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, model_validator

from gateway.domain.resource import Mode
from gateway.domain.retriever import MAX_CHARACTERS, MAX_PASSAGES, RETRIEVER, Retriever, SearchTarget
from gateway.resources.base import ResourceType
from gateway.resources.mcp_server import Headers, Url

HTTP = "http"  # the built-in kind
MAX_SECONDS, MAX_CACHE_SECONDS = 60, 86_400
MAX_PARAMETERS = 8192  # bytes of JSON
FieldPath = Annotated[str, Field(min_length=1, max_length=100)]


class SearchFields(BaseModel):
    """What an endpoint calls things; a path with dots leads into objects."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    query: FieldPath = Field("query", description="In the request: the question.")
    limit: FieldPath = Field("limit", description="In the request: the most passages that are wanted.")
    results: FieldPath = Field("results", description="In the answer: the list of results, best first.")
    text: FieldPath = Field("text", description="In a result: the passage itself.")
    title: FieldPath = Field("title", description="In a result: its title.")
    source: FieldPath = Field("source", description="In a result: where it is from.")
    score: FieldPath = Field("score", description="In a result: how relevant it is.")


class HttpSearchOptions(BaseModel):
    """A search endpoint and how it is spoken to."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    endpoint: str | None = Field(
        None, min_length=1, description="The name of an endpoint in the configuration (`retrievers`), with its secrets."
    )
    url: Url | None = Field(None, description="The address of a search endpoint on the public Internet.")
    headers: Headers = Field({}, description="Sent with every search; visible to all who may read the policy.")
    format: Literal["json", "openai"] = Field(
        "json", description="`openai`: as OpenAI's vector store search; `json`: as `fields` says."
    )
    method: Literal["GET", "POST"] = Field("POST", description="GET sends question and limit in the query.")
    fields: SearchFields = Field(
        SearchFields.model_construct(), description="What the endpoint calls things, for `json`."
    )
    parameters: dict[str, Any] = Field({}, description="Sent with every search, such as filters.")

    @model_validator(mode="after")
    def _check_request(self) -> "HttpSearchOptions":
        if self.format == "openai" and self.method == "GET":
            raise ValueError("the format openai needs the method POST")
        if self.endpoint is not None and self.headers:
            raise ValueError("the headers of a configured endpoint belong into the configuration")
        try:
            size = len(orjson.dumps(self.parameters))
        except orjson.JSONEncodeError as error:
            raise ValueError(f"parameters cannot be sent as JSON: {error}") from error
        if size > MAX_PARAMETERS:
            raise ValueError(f"parameters have {size} bytes; at most {MAX_PARAMETERS} are allowed")
        return self


class RetrieverData(HttpSearchOptions):
    """Where passages are looked up, and how many of them."""

    plugin: str | None = Field(None, min_length=1, description="The name of a plugin that searches.")
    options: dict[str, Any] = Field({}, description="What the plugin is told; it checks it itself.")
    limit: int = Field(5, ge=1, le=MAX_PASSAGES, description="The most passages of one lookup.")
    characters: int = Field(2000, ge=100, le=MAX_CHARACTERS, description="The most characters of one passage.")
    min_score: float | None = Field(
        None, allow_inf_nan=False, description="Passages with a lower score are left out, on the endpoint's own scale."
    )
    seconds: float = Field(10, gt=0, le=MAX_SECONDS, description="How long a lookup may take.")
    cache_seconds: float = Field(
        300, ge=0, le=MAX_CACHE_SECONDS, description="How long the outcome for a question is kept; 0: not at all."
    )

    @model_validator(mode="after")
    def _check_target(self) -> "RetrieverData":
        if sum(one is not None for one in (self.endpoint, self.url, self.plugin)) != 1:
            raise ValueError("give exactly one of url, endpoint and plugin")
        foreign = self.model_fields_set & HttpSearchOptions.model_fields.keys()
        if self.plugin is not None and foreign:
            raise ValueError(f"{', '.join(sorted(foreign))}: belongs to an endpoint; write it under options")
        if self.plugin is None and self.options:
            raise ValueError("options belong to a plugin; an endpoint takes parameters")
        return self

    @property
    def target(self) -> SearchTarget:
        if self.plugin is not None:
            return SearchTarget(self.plugin, orjson.dumps(self.options, option=orjson.OPT_SORT_KEYS).decode())
        said = self.model_dump(mode="json", include=set(HttpSearchOptions.model_fields), exclude_defaults=True)
        return SearchTarget(HTTP, orjson.dumps(said, option=orjson.OPT_SORT_KEYS).decode())

    def to_retriever(self) -> Retriever:
        bounds = (self.limit, self.characters, self.min_score, self.seconds, self.cache_seconds)
        return Retriever(self.target, *bounds)


class RetrieverType(ResourceType):
    """A search endpoint or a plugin; its text is looked up for each question."""

    alias = RETRIEVER
    name = "Retriever"
    description = "Passages that a search endpoint or a plugin finds for each question"
    data = RetrieverData
    icon = "search"
    recommended_mode = Mode.SEMANTIC

    def render(self, data: RetrieverData, material: str | None) -> str:
        return ""  # there is none before somebody asks
