"""Sections of the configuration: what the others are made of, the budget, and what requests may bring."""

from typing import Annotated, Any, Generic, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

OptionalText = Annotated[str | None, BeforeValidator(lambda value: None if value == "" else value)]


# Unknown keys are errors, values never change. Validators are built for `Settings` as a whole: to build one for each
# section takes the same time again. So defaults are made with `model_construct`, which needs none.
STRICT = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, defer_build=True)


class Subsection(BaseModel):
    """A section within another, or in a list."""

    model_config = STRICT


Tokens = Annotated[int, Field(ge=0)]


Amount = TypeVar("Amount", bound=int)


class CategoryShares(BaseModel, Generic[Amount]):
    """Tokens that are reserved for a category; absent: what the next broader setting says.

    Policies take whole numbers only; the configuration also takes text, which `${NAME}` gives.
    """

    model_config = ConfigDict(defer_build=True)

    always: Amount | None = None
    named: Amount | None = None
    tools: Amount | None = None
    catalogue: Amount | None = None
    focus: Amount | None = None
    semantic: Amount | None = None
    relations: Amount | None = None
    activity: Amount | None = None
    knowledge: Amount | None = None
    task: Amount | None = None


class ShareTable(Subsection, CategoryShares[Tokens]):
    """The shares of a budget in the configuration."""

    def to_shares(self) -> dict[str, int]:
        return {name: tokens for name, tokens in self if tokens is not None}


RequestType = Literal["assist", "chat", "search", "automate"]
WHOLE = 4000  # tokens that these shares are parts of; another default budget scales them
SHARES = ShareTable.model_construct(
    always=1600,
    named=400,
    tools=500,
    catalogue=500,
    focus=1500,
    semantic=1200,
    relations=800,
    activity=300,
    knowledge=800,
    task=3000,
)
TYPE_SHARES: dict[RequestType, ShareTable] = {
    "assist": ShareTable.model_construct(focus=2500, semantic=400, relations=300, activity=50),
    "chat": ShareTable.model_construct(focus=400, semantic=2500, relations=500, activity=500),
    "search": ShareTable.model_construct(focus=200, semantic=3000, relations=400, activity=100),
    "automate": ShareTable.model_construct(focus=1500, semantic=600, relations=1200, activity=50),
}


class RankingSettings(Subsection):
    """What counts how much in the order of what collectors find."""

    semantic: float = Field(0.35, ge=0, le=1)
    structural: float = Field(0.25, ge=0, le=1)
    recency: float = Field(0.15, ge=0, le=1)
    type: float = Field(0.15, ge=0, le=1)
    affinity: float = Field(0.10, ge=0, le=1)


class PassthroughSettings(Subsection):
    """A further path to pass through."""

    path: str
    upstream: str | None = None  # absent: the one that serves the model in the body
    keys: list[str] | None = None  # names of the keys that may use it; absent: all

    @model_validator(mode="before")
    @classmethod
    def _take_path(cls, given: object) -> object:
        return {"path": given} if isinstance(given, str) else given


class CorsSettings(Subsection):
    origins: list[str] = []  # such as https://app.example.com

    @field_validator("origins")
    @classmethod
    def _check_origins(cls, value: list[str]) -> list[str]:
        for origin in value:
            parts = urlsplit(origin)
            if parts.scheme not in ("http", "https") or f"{parts.scheme}://{parts.netloc}" != origin or "*" in origin:
                raise ValueError("each origin must have the form https://app.example.com, without a path or a star")
        return value


class KnowledgeSettings(Subsection):
    """The knowledge graph."""

    default_tier: Literal["core", "pro", "teams", "enterprise"] = "core"  # of keys that have none


class BackgroundRuleSettings(Subsection):
    """What tells a request of an interface's background work: one of `prefix`, `contains` and `header`."""

    prefix: OptionalText = None  # that the last user text begins with
    contains: OptionalText = None
    header: OptionalText = None
    value: OptionalText = None  # of that header; absent: any

    @model_validator(mode="after")
    def _check_one(self) -> "BackgroundRuleSettings":
        if sum(one is not None for one in (self.prefix, self.contains, self.header)) != 1:
            raise ValueError("a rule needs exactly one of prefix, contains and header")
        if self.value is not None and self.header is None:
            raise ValueError("value belongs to header")
        return self


class SessionStoreSettings(Subsection):
    days: float = Field(30, gt=0, le=3650)  # without any use, after which a session ends


class ResourceSettings(Subsection):
    exclude: list[str] = []  # resource types that policies may not use


class SummarySettings(Subsection):
    """Summaries of texts that do not fit, written by a model in the background."""

    model: OptionalText = None  # absent: `truncate: summarize` works as `extractive`
    tokens: int = Field(768, ge=32, le=8192)  # of a summary at most, however much room there is
    max_characters: int = Field(100_000, ge=1000, le=2_000_000)  # of a text that are sent; the rest is left out
    calls: int = Field(2, ge=1, le=64)  # at once, per process
    seconds: float = Field(120, gt=0, le=3600)  # for one call
    attempts: int = Field(5, ge=1, le=100)  # then the text is left alone until it changes
    retry_seconds: float = Field(30, gt=0, le=3600)  # after the first failure; doubles each time
    parameters: dict[str, Any] = {}  # of every call, such as temperature

    @field_validator("parameters")
    @classmethod
    def _check_parameters(cls, value: dict[str, Any]) -> dict[str, Any]:
        if own := sorted({"model", "messages", "stream", "n", "tools"} & value.keys()):
            raise ValueError(f"the gateway sets {', '.join(own)} itself")
        return value


class PriceSettings(Subsection):
    """US dollars per million tokens."""

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached_input: float | None = Field(None, ge=0, allow_inf_nan=False)  # absent: as any other input


class RetrieverSettings(Subsection):
    """A search endpoint that policies may name; its headers may hold secrets."""

    url: str = Field(repr=False)
    headers: dict[str, str] = Field({}, repr=False)  # sent with every search
    workspaces: list[str] | None = None  # that may use it; absent: all

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise ValueError("must have the form https://search.example.com/query, without credentials")
        return value

    def is_for(self, workspace: str) -> bool:
        """Whether a workspace may use it; "": the policy files, which are the operator's."""
        return self.workspaces is None or not workspace or workspace in self.workspaces
