"""Everything that an operator can configure, as one frozen Settings; `gateway/settings_loader.py` reads it."""

import ipaddress
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    Field,
    field_validator,
    model_validator,
)

from gateway.collector_settings import CollectorSection
from gateway.domain.agent import MAX_DEPTH, MAX_NEIGHBOURS, Placement
from gateway.domain.principal import Role
from gateway.settings_sections import (
    SHARES,
    STRICT,
    TYPE_SHARES,
    WHOLE,
    BackgroundRuleSettings,
    CorsSettings,
    KnowledgeSettings,
    OptionalText,
    PassthroughSettings,
    PriceSettings,
    RankingSettings,
    RequestType,
    ResourceSettings,
    RetrieverSettings,
    SessionStoreSettings,
    ShareTable,
    SummarySettings,
)

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]

# Headers that are never the client's to send upstream: keys, framing, and what others write.
NEVER_FORWARDED = frozenset(
    {"accept-encoding", "api-key", "authorization", "connection", "content-encoding", "content-length", "cookie"}
    | {"expect", "forwarded", "host", "idempotency-key", "keep-alive", "origin", "openai-organization"}
    | {"openai-project", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "x-api-key"}
)


def check_forwarded_name(name: str) -> str:
    """The lower-case name of a header that may be forwarded."""
    name = name.lower()
    if name in NEVER_FORWARDED or name.startswith(("x-context-", "x-forwarded-")):
        raise ValueError(f"the header {name} is never forwarded")
    return name


HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$"), AfterValidator(check_forwarded_name)]


class Section(BaseModel):
    """A part of the configuration."""

    model_config = STRICT


class ListenSettings(Section):
    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)


class TimeoutSettings(Section):
    connect: Seconds = 5
    first_byte: Seconds = 60
    idle: Seconds = 60


class UpstreamSettings(Section):
    kind: Literal["openai", "anthropic", "litellm", "demo"]
    base_url: OptionalText = None  # openai kind; optional for anthropic and litellm
    api_key: str | None = None  # given but empty: the upstream is disabled
    # litellm kind: "anthropic/*", the star is the client's model. demo kind: the models it answers to; absent: demo*
    model: OptionalText = None
    headers: dict[str, str] = {}  # sent with every call
    pass_bearer: bool = False  # forward the client's own Authorization; our key is then x-context-key
    account_headers: bool = False  # clients get x-ratelimit-*, openai-organization and openai-project
    timeouts: TimeoutSettings = TimeoutSettings.model_construct()
    retries: int | None = Field(None, ge=0, le=10)  # absent: none, but 2 in later turns of a stream
    tools: bool = True
    system_anywhere: bool | None = None
    developer: bool | None = None
    stream_usage: bool | None = None
    version: str = Field("2023-06-01", pattern=r"^[0-9A-Za-z.-]{1,40}$")  # anthropic kind: where a client names none
    max_tokens: int = Field(8192, ge=1)  # anthropic kind: of an answer, where a request sets no limit
    responses: bool = False  # openai kind: it has /responses; others are spoken to in chat completions
    # Whether requests may name what its account keeps, such as files; auto: while all keys are of one workspace
    shared_objects: Literal["auto", "allow", "refuse"] = "auto"
    objects: dict[str, list[str]] = {}  # what a workspace may name nevertheless: ids or patterns with *

    @field_validator("base_url")
    @classmethod
    def _check_address(cls, value: str | None) -> str | None:
        parts = urlsplit(value or "")
        if value is not None and (parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc):
            raise ValueError("must have the form https://api.example.com/v1, without credentials")
        return value

    @model_validator(mode="after")
    def _check_target(self) -> "UpstreamSettings":
        if self.kind == "openai" and self.base_url is None:
            raise ValueError("kind openai needs a base_url")
        if self.kind == "litellm" and self.model is None:
            raise ValueError('kind litellm needs a model, such as "anthropic/*"')
        return self

    @property
    def enabled(self) -> bool:
        return self.api_key is None or self.api_key != ""


class RouteSettings(Section):
    model: str  # exact name or a pattern with *
    upstream: str
    fallbacks: list[str] = []


class KeyLimitSettings(Section):
    """What a key may use per minute; absent: no limit."""

    requests: int | None = Field(None, ge=1)
    tokens: int | None = Field(None, ge=1)


class KeySettings(Section):
    name: str | None = None
    sha256: str = Field(pattern=r"^[0-9a-fA-F]{64}$")
    workspace: str = "default"
    agents: list[str] | None = None  # absent: any
    agent: str | None = None  # bound: that agent whatever the request says
    agent_optional: bool = False  # with `agents`: requests without an agent are allowed too
    models: list[str] | None = None  # names or patterns with *; absent: any
    tools: list[str] | None = None  # ids of tools or patterns with *; absent: any
    rights: list[Literal["act_as_user", "admin"]] = []
    role: Role | None = None  # absent: admin for those with that right, else chat
    groups: list[str] = []  # for reader lists; "*" belongs to every group
    tier: OptionalText = None
    limits: KeyLimitSettings = KeyLimitSettings.model_construct()
    expires_at: AwareDatetime | None = None


class AuthSettings(Section):
    keys: list[KeySettings] = []
    stale_seconds: Seconds = 300  # how long stored keys stay valid without contact to the store
    sign_in_hours: float = Field(12, gt=0, le=720)  # how long a browser stays signed in


class DefaultSettings(Section):
    budget: int = Field(4000, ge=0)
    shares: ShareTable = ShareTable.model_construct()  # of `budget`; absent ones: SHARES
    types: dict[RequestType, ShareTable] = {}  # what a request type has instead; absent ones: TYPE_SHARES
    ranking: RankingSettings = RankingSettings.model_construct()
    max_turns: int = Field(5, ge=1, le=50)
    model: OptionalText = None
    placement: Placement = Placement.SYSTEM

    def list_shares(self) -> dict[str, int]:
        """The reserved tokens of `budget` by category."""
        scaled = {name: tokens * self.budget // WHOLE for name, tokens in SHARES.to_shares().items()}
        return scaled | self.shares.to_shares()

    def list_type_shares(self) -> dict[str, dict[str, int]]:
        """What request types have instead."""
        known: dict[str, dict[str, int]] = {}
        for name, table in TYPE_SHARES.items():
            scaled = {category: tokens * self.budget // WHOLE for category, tokens in table.to_shares().items()}
            own = self.types.get(name)
            known[name] = scaled | (own.to_shares() if own is not None else {})
        return known


class LimitSettings(Section):
    body_bytes: int = Field(32 * 1024 * 1024, gt=0)
    header_bytes: int = Field(64 * 1024, gt=0)
    reply_bytes: int = Field(64 * 1024 * 1024, gt=0)
    cache_bytes: int = Field(64 * 1024 * 1024, ge=0)  # for the blocks of scopes and questions, per process
    collect_milliseconds: Annotated[int, Field(gt=0, le=60_000)] = 200  # how long a request waits for its collectors
    header_seconds: Seconds = 10  # to receive all request headers
    body_seconds: Seconds = 30  # to receive a whole request body
    write_seconds: Seconds = 30  # a client that reads nothing for so long is dropped
    drain_seconds: Seconds = 30  # what running streams get to finish after SIGTERM


class ResponseSettings(Section):
    hours: float = Field(24, gt=0, allow_inf_nan=False)  # that responses can be continued, read and deleted

    @property
    def seconds(self) -> float:
        return self.hours * 3600


class LinkSettings(Section):
    interval: Seconds = 86_400
    timeout: Seconds = 15
    max_bytes: int = Field(2 * 1024 * 1024, gt=0)
    allow: list[str] = []  # private host names or networks that may be fetched


class DocumentSettings(Section):
    max_bytes: int = Field(20 * 1024 * 1024, gt=0)
    cpu_seconds: int = Field(10, gt=0)
    memory_mb: int = Field(512, gt=0)
    seconds: Seconds = 20


CONNECT_SECONDS = 10.0  # that an MCP server may take to answer at first


class ToolServerSettings(Section):
    """An MCP server that policies may name: a process on this machine, or an address."""

    command: list[str] = []  # the program and its arguments
    env: dict[str, str] = Field({}, repr=False)
    cwd: OptionalText = None
    url: OptionalText = None
    headers: dict[str, str] = Field({}, repr=False)  # sent with every request
    connect_seconds: Seconds = CONNECT_SECONDS
    workspaces: list[str] | None = None  # that may use it; absent: all

    @model_validator(mode="after")
    def _check_target(self) -> "ToolServerSettings":
        if bool(self.command) == (self.url is not None):
            raise ValueError("needs either a command or a url")
        if self.url is not None and (self.env or self.cwd):
            raise ValueError("env and cwd belong to a command")
        if self.command and self.headers:
            raise ValueError("headers belong to a url")
        if self.url is not None and urlsplit(self.url).scheme not in ("http", "https"):
            raise ValueError("the url must begin with http:// or https://")
        return self


class LogSettings(Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    exchanges: bool = True  # one line per chat request


class EmbedderSettings(Section):
    kind: Literal["onnx", "openai"] = "onnx"
    path: OptionalText = None  # onnx kind: a folder with model.onnx and tokenizer.json; absent: the bundled model
    base_url: OptionalText = None  # openai kind: an endpoint with /embeddings
    api_key: OptionalText = None
    model: OptionalText = None

    @model_validator(mode="after")
    def _check_target(self) -> "EmbedderSettings":
        if self.kind == "openai" and (self.base_url is None or self.model is None):
            raise ValueError("kind openai needs a base_url and a model")
        return self


class ExpansionSettings(Section):
    depth: int = Field(0, ge=0, le=MAX_DEPTH)  # further searches with the found passages as queries
    threshold: float = Field(0.75, ge=0, le=1)  # cosine
    top_n: int = Field(3, ge=0, le=MAX_NEIGHBOURS)  # per pass


class KindSettings(Section):
    """Selection settings of one kind of resource; absent: those of all."""

    include_score: float | None = Field(None, ge=0, le=1)
    min_score: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=1, le=1000)
    top_n: int | None = Field(None, ge=0, le=100)


class SemanticSettings(Section):
    enabled: bool = True
    embedder: EmbedderSettings = EmbedderSettings.model_construct()
    milliseconds: Annotated[int, Field(gt=0, le=60_000)] = 150  # how long a request waits for its vectors
    preset: Literal["conservative", "normal", "aggressive"] = "normal"
    include_score: float | None = Field(None, ge=0, le=1)  # absent: the preset's
    min_score: float | None = Field(None, ge=0, le=1)
    top_k: int = Field(20, ge=1, le=1000)  # resources per sentence that are scored in full
    top_n: int | None = Field(None, ge=0, le=100)
    kinds: dict[Literal["reference", "tool"], KindSettings] = {}
    index: Literal["auto", "local", "redis"] = "auto"  # where the nearest passages of large sets are looked up
    cache_bytes: int = Field(128 * 1024 * 1024, gt=0)  # for vectors of questions and views of the index, per process
    content_bytes: int = Field(256 * 1024 * 1024, gt=0)  # for vectors of nodes and entities, per process
    calibration: OptionalText = None  # a file that `gateway eval --fit` wrote; absent: the bundled one
    expansion: ExpansionSettings = ExpansionSettings.model_construct()


class VersionSettings(Section):
    keep: int = Field(50, ge=1, le=10_000)  # of each stored object
    audit_days: int = Field(365, ge=1, le=36_500)


QuotaName = Literal[
    "contexts", "profiles", "agents", "prompts", "recipes", "content", "documents", "drafts", "cases", "keys", "links",
    "sessions", "entities", "relationships", "axioms", "knowledge_bytes",
    "record_bytes", "document_bytes", "object_bytes", "list_items",
]  # fmt: skip


class QuotaLimits(Section):
    """What one workspace may store. Objects of policy files and configured keys do not count."""

    contexts: int = Field(10_000, ge=0)
    profiles: int = Field(5_000, ge=0)
    agents: int = Field(5_000, ge=0)
    prompts: int = Field(10_000, ge=0)
    recipes: int = Field(5_000, ge=0)
    content: int = Field(200_000, ge=0)  # nodes
    documents: int = Field(10_000, ge=0)
    drafts: int = Field(5_000, ge=0)
    cases: int = Field(1_000, ge=0)  # saved questions for evaluations
    keys: int = Field(5_000, ge=0)
    links: int = Field(2_000, ge=0)  # URLs
    sessions: int = Field(100_000, ge=0)
    response_bytes: int = Field(512 * 1024 * 1024, ge=0)  # of stored responses
    entities: int = Field(100_000, ge=0)
    relationships: int = Field(400_000, ge=0)
    axioms: int = Field(2_000, ge=0)
    knowledge_bytes: int = Field(128 * 1024 * 1024, ge=0)  # of all three; every replica keeps them in memory
    record_bytes: int = Field(512 * 1024 * 1024, ge=0)  # of all objects; every replica keeps them in memory
    document_bytes: int = Field(2 * 1024 * 1024 * 1024, ge=0)  # of uploads as they were sent
    object_bytes: int = Field(8 * 1024 * 1024, ge=0)  # of one object
    list_items: int = Field(10_000, ge=0)  # of one list in an object


class QuotaSettings(QuotaLimits):
    workspaces: dict[str, dict[QuotaName, Annotated[int, Field(ge=0)]]] = {}  # where it differs for one of them


class ReceiptSettings(Section):
    enabled: bool = True
    durability: Literal["batch", "strict"] = "batch"  # strict: no upstream call before the receipt is stored
    text: bool = False  # store requests, blocks and answers too
    queue: int = Field(10_000, ge=1, le=1_000_000)  # receipts that wait for the store; beyond that they are lost
    days: int = Field(30, ge=1, le=36_500)
    max_mb: int = Field(2048, ge=1)


class AnalyticsSettings(Section):
    """Figures about receipts."""

    enabled: bool = True
    sample: float = Field(0.02, ge=0, le=1)  # share of exchanges whose answer is compared with what was injected
    days: int = Field(400, ge=1, le=36_500)
    max_rows: int = Field(250_000, ge=1000)  # of one workspace, about 0.3 KB each


class Settings(Section):
    """Everything that an operator can configure."""

    listen: ListenSettings = ListenSettings.model_construct()
    policies: str = "./policies"
    adopt: bool = True  # admins of a workspace may adopt what policy files define
    store: str = Field("sqlite:///./data/gateway.db", repr=False)  # the URL of a server may hold a password
    secret: OptionalText = None  # keys the block tags; absent: created once in the store
    upstreams: dict[str, UpstreamSettings]
    routes: list[RouteSettings]
    auth: AuthSettings = AuthSettings.model_construct()
    defaults: DefaultSettings = DefaultSettings.model_construct()
    limits: LimitSettings = LimitSettings.model_construct()
    hosts: list[str] = []  # additional accepted Host names
    passthrough: list[PassthroughSettings] = []  # additional paths below /v1 that are passed through
    forward_headers: list[HeaderName] = []  # of clients, that go upstream in addition to the usual ones
    cors: CorsSettings = CorsSettings.model_construct()
    background: list[BackgroundRuleSettings] = []  # requests that go without context
    responses: ResponseSettings = ResponseSettings.model_construct()
    links: LinkSettings = LinkSettings.model_construct()
    documents: DocumentSettings = DocumentSettings.model_construct()
    resources: ResourceSettings = ResourceSettings.model_construct()
    collectors: dict[str, CollectorSection] = {}  # by name
    versions: VersionSettings = VersionSettings.model_construct()
    quotas: QuotaSettings = QuotaSettings.model_construct()
    receipts: ReceiptSettings = ReceiptSettings.model_construct()
    analytics: AnalyticsSettings = AnalyticsSettings.model_construct()
    prices: dict[str, PriceSettings] = {}  # by model; "gpt-4o*" stands for all that begin so
    windows: dict[str, Annotated[int, Field(ge=8192)]] = {}  # tokens by model; "gpt-4o*" stands for all that begin so
    sessions: SessionStoreSettings = SessionStoreSettings.model_construct()
    semantic: SemanticSettings = SemanticSettings.model_construct()
    mcp: bool = True  # serve contexts to MCP clients at /mcp
    knowledge: KnowledgeSettings = KnowledgeSettings.model_construct()
    tool_servers: dict[str, ToolServerSettings] = {}  # MCP servers by the names that policies use
    summaries: SummarySettings = SummarySettings.model_construct()
    retrievers: dict[str, RetrieverSettings] = {}  # search endpoints by the names that policies use
    console: bool = True  # serve the console at /console
    log: LogSettings = LogSettings.model_construct()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listening address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
