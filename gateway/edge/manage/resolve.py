"""`POST /resolve`: a dry run that shows the exact outgoing request and why each part of it is there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from gateway.control.objects import Objects
from gateway.domain.exchange import Exchange
from gateway.domain.principal import Role
from gateway.domain.snapshot import Snapshot
from gateway.edge.manage.calls import ApiCall, ApiReply
from gateway.edge.manage.routes import ApiRoute
from gateway.errors import Faults, FieldError, Forbidden, InvalidObject, ServiceUnavailable, UpstreamError
from gateway.pipeline import Pipeline
from gateway.policies.repository import PolicyRepository
from gateway.preview import preview_request

Changes = Mapping[tuple[str, str], Any]


class ResolveBody(BaseModel):
    """The request to resolve, and on whose behalf."""

    model_config = ConfigDict(extra="forbid")

    context: dict[str, Any] | None = Field(None, description="Like the `context` object of a chat request.")
    request: dict[str, Any] | None = Field(None, description="A chat request, or a part of one.")
    query: str | None = Field(None, description="The user's question; it is appended to the messages of the request.")
    drafts: StrictBool | list[str] = Field(
        False, description="Whether to treat drafts as published; or which ones, as kind/alias."
    )


class ResolvedResource(BaseModel):
    """A resource that was considered, and the outcome."""

    id: str
    name: str
    type: str
    kind: Literal["rule", "reference", "tool"]
    mode: Literal["always", "semantic", "on_demand", "manual"]
    via: str
    level: str
    entity: str
    context: str
    version: int
    score: float | None
    tokens: int | None
    position: int | None
    truncated: bool
    reason: str | None
    why: str


class SelectionView(BaseModel):
    """What is injected, what the tools offer, and what is left out."""

    injected: list[ResolvedResource]
    catalogue: list[ResolvedResource]
    dropped: list[ResolvedResource]


class ContextSource(BaseModel):
    """A context that applies, and what it was assigned to."""

    level: str
    entity: str
    context: str


class TokenUsage(BaseModel):
    """What the injection costs."""

    total: int
    budget: int
    remaining: int
    by_category: dict[str, int]


class NoticeView(BaseModel):
    """A warning about the selection."""

    code: str
    category: str
    message: str


class CollectorView(BaseModel):
    """A collector that ran: what it looked at, and how much of it is in the request."""

    name: str
    category: str
    considered: int
    included: int
    failure: str | None
    total_available: int | None
    truncated: bool
    counts: dict[str, int]


class ResolveResult(BaseModel):
    """The exact outgoing request, and why each part of it is there."""

    snapshot: str
    upstream: str
    model: str
    request: dict[str, Any]
    block: str
    tools: list[dict[str, Any]]
    selection: SelectionView
    sources: list[ContextSource]
    focus: str | None
    collectors: list[CollectorView]
    tokens: TokenUsage
    warnings: list[NoticeView]
    degraded: list[str]


@dataclass(frozen=True, slots=True)
class ResolveRoutes:
    """The dry run, with the rights of the caller."""

    pipeline: Pipeline
    policies: PolicyRepository
    objects: Objects

    def list_routes(self) -> Iterator[ApiRoute]:
        for path in ("/resolve", "/contexts/resolve"):
            yield ApiRoute(
                method="POST",
                path=path,
                handler=self.resolve,
                role=Role.CHAT,
                tag="resolve",
                summary="Show what would be sent upstream, and why",
                body=ResolveBody,
                responses={200: ResolveResult},
                errors=(Forbidden, ServiceUnavailable, UpstreamError),
            )

    async def resolve(self, call: ApiCall[None, ResolveBody]) -> ApiReply:
        body, principal = call.body, call.principal
        if body.drafts and not principal.role.covers(Role.EDITOR):
            raise Forbidden(f"Drafts need a key with the role editor; yours has {principal.role.value}.")
        snapshot = await self._build_snapshot(call.workspace, body.drafts)
        exchange = Exchange("preview", principal, snapshot, ())
        return ApiReply(await preview_request(self.pipeline, exchange, orjson.dumps(build_chat_body(body))))

    async def _build_snapshot(self, workspace: str, wanted: bool | Sequence[str]) -> Snapshot:
        if not wanted:
            return self.policies.get_snapshot(workspace)
        drafts: Changes = self.objects.draft_changes(workspace)
        if not isinstance(wanted, bool):
            drafts = _select_drafts(wanted, drafts)
        try:
            return await self.policies.try_changes(workspace, drafts)
        except Faults as faults:
            wrong = [FieldError("/drafts", f"{one.file}: {one.path}: {one.message}") for one in faults.faults]
            raise InvalidObject("The policies would be invalid with these drafts.", wrong) from faults


def build_chat_body(wanted: ResolveBody) -> dict[str, Any]:
    """The chat request to resolve."""
    body = dict(wanted.request or {})
    if wanted.context is not None:
        if body.get("context") is not None:
            raise InvalidObject(
                "The context is given twice.", [FieldError("/request/context", "is given in /context already")]
            )
        body["context"] = wanted.context
    messages = body.setdefault("messages", [])
    if wanted.query is not None and isinstance(messages, list):
        body["messages"] = [*messages, {"role": "user", "content": wanted.query}]
    return body


def _select_drafts(wanted: Sequence[str], drafts: Changes) -> Changes:
    """The drafts with these names; raises InvalidObject for an unknown one."""
    by_name = {f"{kind}/{alias}": (kind, alias) for kind, alias in drafts}
    missing = [position for position, name in enumerate(wanted) if name not in by_name]
    if missing:
        wrong = [FieldError(f"/drafts/{position}", f"there is no draft {wanted[position]!r}") for position in missing]
        raise InvalidObject("Some of these drafts do not exist.", wrong)
    return {by_name[name]: drafts[by_name[name]] for name in wanted}
