"""`POST /resolve`: a dry run that shows the exact outgoing request and why each thing is in it."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import orjson
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from gateway.domain.exchange import Exchange
from gateway.domain.principal import Role
from gateway.domain.snapshot import Snapshot
from gateway.edge.manage.calls import ApiCall, ApiReply, ok
from gateway.edge.manage.routes import ApiRoute
from gateway.errors import Faults, FieldError, Forbidden, InvalidObject, ServiceUnavailable, UpstreamError
from gateway.pipeline import Pipeline
from gateway.preview import preview

Changes = Mapping[tuple[str, str], Any]


class Policies(Protocol):
    """The policies that a request works with."""

    def of(self, workspace: str) -> Snapshot:
        """The snapshot of a workspace; raises Unavailable."""
        ...

    def trial(self, workspace: str, changes: Mapping[tuple[str, str], Any | None]) -> Snapshot:
        """The snapshot that changes would give; raises Faults."""
        ...


class Drafts(Protocol):
    """What is written but not yet published."""

    def draft_changes(self, workspace: str) -> Changes:
        """The data of every draft by kind and alias."""
        ...


class ResolveBody(BaseModel):
    """What to try: who asks about what, and the request itself."""

    model_config = ConfigDict(extra="forbid")

    context: dict[str, Any] | None = Field(None, description="As the `context` object of a chat request.")
    request: dict[str, Any] | None = Field(None, description="A chat request, or a part of one.")
    query: str | None = Field(None, description="The user's question; it follows the messages of the request.")
    drafts: StrictBool | list[str] = Field(
        False, description="Whether drafts count as published; or which, as kind/alias."
    )


class Item(BaseModel):
    """A resource that was looked at, and what became of it."""

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


class Chosen(BaseModel):
    """What is placed, what the tools offer, and what is left out."""

    injected: list[Item]
    catalogue: list[Item]
    dropped: list[Item]


class Source(BaseModel):
    """A context that applies, and through what."""

    level: str
    entity: str
    context: str


class Tokens(BaseModel):
    """What the injection costs."""

    total: int
    budget: int
    remaining: int
    by_category: dict[str, int]


class Warned(BaseModel):
    """Something that an editor should know."""

    code: str
    category: str
    message: str


class Resolved(BaseModel):
    """The exact outgoing request, and why each thing is in it."""

    snapshot: str
    upstream: str
    model: str
    request: dict[str, Any]
    block: str
    tools: list[dict[str, Any]]
    selection: Chosen
    sources: list[Source]
    tokens: Tokens
    warnings: list[Warned]
    degraded: list[str]


@dataclass(frozen=True, slots=True)
class Resolve:
    """The dry run, with the eyes of whoever asks."""

    pipeline: Pipeline
    policies: Policies
    drafts: Drafts

    def routes(self) -> Iterator[ApiRoute]:
        for path in ("/resolve", "/contexts/resolve"):
            yield ApiRoute(
                method="POST",
                path=path,
                handler=self.resolve,
                role=Role.CHAT,
                tag="resolve",
                summary="Show what would be sent, and why",
                body=ResolveBody,
                responses={200: Resolved},
                errors=(Forbidden, ServiceUnavailable, UpstreamError),
            )

    async def resolve(self, call: ApiCall[None, ResolveBody]) -> ApiReply:
        wish, principal = call.body, call.principal
        if wish.drafts and not principal.role.covers(Role.EDITOR):
            raise Forbidden(f"Drafts are for keys with the role editor; yours has {principal.role.value}.")
        snapshot = await self._snapshot(call.workspace, wish.drafts)
        exchange = Exchange("preview", principal, snapshot, ())
        return ok(await preview(self.pipeline, exchange, orjson.dumps(chat_body(wish))))

    async def _snapshot(self, workspace: str, wanted: bool | Sequence[str]) -> Snapshot:
        if not wanted:
            return self.policies.of(workspace)
        drafts = self.drafts.draft_changes(workspace)
        if not isinstance(wanted, bool):
            drafts = _named(wanted, drafts)
        try:
            return await asyncio.to_thread(self.policies.trial, workspace, drafts)
        except Faults as faults:
            wrong = [FieldError("/drafts", f"{one.file}: {one.path}: {one.message}") for one in faults.faults]
            raise InvalidObject("With these drafts the policies are not valid.", wrong) from faults


def chat_body(wish: ResolveBody) -> dict[str, Any]:
    """The chat request that is tried."""
    body = dict(wish.request or {})
    if wish.context is not None:
        if body.get("context") is not None:
            raise InvalidObject(
                "The context is given twice.", [FieldError("/request/context", "stands in /context already")]
            )
        body["context"] = wish.context
    messages = body.setdefault("messages", [])
    if wish.query is not None and isinstance(messages, list):
        body["messages"] = [*messages, {"role": "user", "content": wish.query}]
    return body


def _named(wanted: Sequence[str], drafts: Changes) -> Changes:
    """The drafts that are wanted; raises Invalid for one that there is not."""
    by_name = {f"{kind}/{alias}": (kind, alias) for kind, alias in drafts}
    missing = [position for position, name in enumerate(wanted) if name not in by_name]
    if missing:
        wrong = [FieldError(f"/drafts/{position}", f"there is no draft {wanted[position]!r}") for position in missing]
        raise InvalidObject("Some of the drafts do not exist.", wrong)
    return {by_name[name]: drafts[by_name[name]] for name in wanted}
