"""config.yaml and the environment become one frozen Settings; nothing else reads os.environ."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from gateway.domain.agent import Placement

Seconds = Annotated[float, Field(gt=0)]


class Section(BaseModel):
    """A part of the configuration: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Listen(Section):
    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)


class Timeouts(Section):
    connect: Seconds = 5
    first_byte: Seconds = 60
    idle: Seconds = 60


class UpstreamSettings(Section):
    kind: Literal["openai", "litellm", "demo"]
    base_url: str | None = None  # openai kind; optional for litellm
    api_key: str | None = None  # given but empty: the upstream is disabled
    model: str | None = None  # litellm kind: "anthropic/*", the star is the client's model
    headers: dict[str, str] = {}  # sent with every call
    pass_bearer: bool = False  # forward the client's own Authorization; our key is then x-context-key
    timeouts: Timeouts = Timeouts()
    retries: int = Field(2, ge=0, le=10)
    tools: bool = True
    system_anywhere: bool | None = None
    developer: bool | None = None
    stream_usage: bool | None = None

    @property
    def enabled(self) -> bool:
        return self.api_key is None or self.api_key != ""


class Route(Section):
    model: str  # exact name or a pattern with *
    upstream: str
    fallbacks: list[str] = []


class Key(Section):
    name: str | None = None
    sha256: str = Field(pattern=r"^[0-9a-fA-F]{64}$")
    workspace: str = "default"
    agents: list[str] | None = None
    agent: str | None = None
    rights: list[Literal["act_as_user", "admin"]] = []


class Auth(Section):
    keys: list[Key] = []


class Defaults(Section):
    budget: int = Field(4000, ge=0)
    max_turns: int = Field(5, ge=1, le=50)
    model: str | None = None
    placement: Placement = Placement.SYSTEM


class Limits(Section):
    body_bytes: int = Field(32 * 1024 * 1024, gt=0)
    header_bytes: int = Field(64 * 1024, gt=0)
    reply_bytes: int = Field(64 * 1024 * 1024, gt=0)
    header_seconds: Seconds = 10  # to receive all request headers
    body_seconds: Seconds = 30  # to receive a whole request body
    write_seconds: Seconds = 30  # a client that does not read for so long is dropped
    drain_seconds: Seconds = 30  # what running streams get after SIGTERM


class Links(Section):
    interval: Seconds = 86_400
    timeout: Seconds = 15
    max_bytes: int = Field(2 * 1024 * 1024, gt=0)
    allow: list[str] = []  # host names or networks that may be fetched although they are private


class Documents(Section):
    max_bytes: int = Field(20 * 1024 * 1024, gt=0)
    cpu_seconds: int = Field(10, gt=0)
    memory_mb: int = Field(512, gt=0)
    seconds: Seconds = 20


class Log(Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    exchanges: bool = True  # one line per chat request


class Resources(Section):
    exclude: list[str] = []  # resource types that policies may not use


class Settings(Section):
    """Everything that an operator decides."""

    listen: Listen = Listen()
    policies: str = "./policies"
    store: str = "sqlite:///./data/gateway.db"
    secret: str | None = None  # keys the block tags; made once in the store when absent
    upstreams: dict[str, UpstreamSettings]
    routes: list[Route]
    auth: Auth = Auth()
    defaults: Defaults = Defaults()
    limits: Limits = Limits()
    hosts: list[str] = []  # further Host names that are accepted
    passthrough: list[str] = []  # further paths below /v1 that are passed through
    links: Links = Links()
    documents: Documents = Documents()
    resources: Resources = Resources()
    log: Log = Log()
