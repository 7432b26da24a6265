"""The route table: from it come dispatching, the role check and the OpenAPI document."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply
from gateway.edge.manage.patterns import Pattern
from gateway.errors import GatewayError

_NUMBER = re.compile(r"-?[0-9]{1,18}")

Handler: TypeAlias = Callable[[ApiCall[Any, Any]], Awaitable[ApiReply]]


@dataclass(frozen=True, slots=True)
class Media:
    """A body that is not JSON: its media types, and how much of it is taken (requests; None: limits.body_bytes)."""

    types: tuple[str, ...]
    max_bytes: int | None = None


Content: TypeAlias = type[BaseModel] | Media | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRoute:
    """One operation. Every status that it can answer with is declared: `responses`, and `errors` by class."""

    method: str
    path: str  # below /api/v1
    handler: Handler
    role: Role
    tag: str
    summary: str  # one line for the reader of the OpenAPI document
    query: type[BaseModel] | None = None
    body: Content = None
    plain: bool = False  # the handler gets any JSON value and judges it; `body` only describes it
    responses: Mapping[int, Content]
    errors: tuple[type[GatewayError], ...] = ()  # beyond those that every route of its form has
    conditional: bool = False  # GET: If-None-Match and 304; others: If-Match and 412; both send an ETag
    pattern: Pattern = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pattern", Pattern(self.path))

    @property
    def operation(self) -> str:
        """A name for the operation that no other has."""
        words = self.pattern.template.strip("/").replace("{", "").replace("}", "").replace("/", "-")
        return f"{self.method.lower()}-{words}"


class RouteGroup(Protocol):
    """A part of the API that brings its own routes."""

    def routes(self) -> Iterable[ApiRoute]:
        """Every operation of this noun."""
        ...


class Query(BaseModel):
    """Query parameters: unknown ones are faults. Fields are strings, whole numbers or booleans, with bounds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _written_plainly(cls, value: Any, info: ValidationInfo) -> Any:
        # pydantic would take "1_000", " 5 " and "5.0" for numbers, "on" and "t" for booleans.
        wanted = {cls.model_fields[str(info.field_name)].annotation}
        if wanted & {int, int | None} and not _NUMBER.fullmatch(value):
            raise ValueError("must be a whole number")
        if wanted & {bool, bool | None} and value not in ("true", "false"):
            raise ValueError("must be true or false")
        return value


class Paging(Query):
    """Which part of a list is wanted."""

    skip: int = Field(0, ge=0, le=10_000_000, description="How many to leave out.")
    take: int = Field(100, ge=1, le=1000, description="How many to return at most.")


class ListQuery(Paging):
    """A part of a list that is narrowed by a word."""

    filter: str = Field("", max_length=200, description="Only what has this text in its names.")
