"""`POST /receipts/{receipt}/replay` and `POST /diff`: requests built again, and what differs between two of them."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from gateway.domain.principal import Principal, Role
from gateway.domain.receipt import ID_PATTERN
from gateway.edge.manage.calls import ApiCall, ApiReply
from gateway.edge.manage.resolve import GivenRequestBody, ResolvedResource, ResolveResult
from gateway.edge.manage.routes import ApiRoute
from gateway.edge.manage.versions import ChangeView
from gateway.errors import Conflict, FieldError, Forbidden, InvalidObject, NotFound, ServiceUnavailable, UpstreamError
from gateway.policies.shapes import Moment
from gateway.replay.overlay import PolicyChoice
from gateway.replay.receipt_source import GivenRequest
from gateway.replay.replayer import Replayer, RequestChoice, describe_replay
from gateway.replay.resolved_request import ResolvedRequest

AS_OF_RECEIPT: Literal["receipt"] = "receipt"


class ReplayBody(GivenRequestBody):
    """What to use in place of what the receipt says, and with which policies."""

    as_of: Literal["receipt"] | Moment | None = Field(
        None, description="The stored policies as they were at this time, or at that of the receipt."
    )

    def choose_policies(self, caller: Principal) -> PolicyChoice:
        return self.build_choice(caller, self.as_of if isinstance(self.as_of, datetime) else None)


class DiffSideBody(ReplayBody):
    """One of two requests."""

    receipt: Annotated[str, Field(pattern=ID_PATTERN)] | None = Field(
        None, description="The request of this receipt; needs the role admin."
    )

    @property
    def names_request(self) -> bool:
        return any(one is not None for one in (self.receipt, self.context, self.request, self.query))


class DiffBody(BaseModel):
    """The two requests to compare."""

    model_config = ConfigDict(extra="forbid")

    before: DiffSideBody = Field(alias="from")
    after: DiffSideBody = Field(alias="to", description="Takes its request from `from` if it names none itself.")


class ItemChange(BaseModel):
    """A resource that both requests have and that differs."""

    id: str
    fields: list[str] = Field(description="What differs; `text`: see `messages`.")
    before: dict[str, Any] = Field(alias="from")
    after: dict[str, Any] = Field(alias="to")


class ItemMove(BaseModel):
    """A resource that has another place among those that both requests have."""

    id: str
    before: int = Field(alias="from")
    after: int = Field(alias="to")


class ItemChanges(BaseModel):
    """What differs among the resources that are placed."""

    added: list[ResolvedResource]
    removed: list[ResolvedResource]
    changed: list[ItemChange]
    moved: list[ItemMove]


class ReplayedReceipt(BaseModel):
    """How a replayed request relates to what was sent."""

    id: str
    same_policies: bool = Field(description="Whether the policies say what those of the receipt said.")
    same_context: bool = Field(description="Whether the same resources were placed, at the same cost.")
    items: ItemChanges = Field(description="From what was sent to what would be sent.")
    omitted: list[str] = Field(
        description="What the receipt does not have of its request: `credentials`, `previous_response`."
    )


class ReplayResult(ResolveResult):
    """The exact outgoing request, and how it relates to the receipt."""

    receipt: ReplayedReceipt


class ValuePair(BaseModel):
    """A value on both sides."""

    before: Any = Field(alias="from")
    after: Any = Field(alias="to")


class NameChanges(BaseModel):
    """Names that have come and gone."""

    added: list[str]
    removed: list[str]


class ToolChanges(NameChanges):
    """Tools that have come, gone or changed."""

    changed: list[str]


class TokenChanges(BaseModel):
    """What both injections cost."""

    total: ValuePair
    budget: ValuePair
    remaining: ValuePair
    by_category: dict[str, ValuePair]


class DiffResult(BaseModel):
    """What differs between two outgoing requests."""

    same: bool = Field(description="Whether the same request would be sent to the same upstream.")
    snapshot: ValuePair
    upstream: ValuePair
    model: ValuePair
    placement: ValuePair
    tokens: TokenChanges
    items: ItemChanges
    catalogue: NameChanges
    dropped: NameChanges
    tools: ToolChanges
    warnings: NameChanges
    degraded: NameChanges
    fields: list[ChangeView] = Field(description="Other fields of the request.")
    messages: str = Field(description="A unified diff of the messages.")


class ReplayRoutes(msgspec.Struct, frozen=True):
    """Replays and comparisons, with the rights of the caller."""

    replayer: Replayer

    def list_routes(self) -> Iterator[ApiRoute]:
        errors = (Forbidden, NotFound, Conflict, ServiceUnavailable, UpstreamError)
        route = partial(ApiRoute, method="POST", errors=errors)
        yield route(
            path="/receipts/{receipt}/replay",
            handler=self.replay,
            role=Role.ADMIN,
            tag="receipts",
            summary="Show what would be sent for the request of a receipt, with these or other policies",
            body=ReplayBody,
            responses={200: ReplayResult},
        )
        yield route(
            path="/diff",
            handler=self.compare,
            role=Role.CHAT,
            tag="resolve",
            summary="Compare two requests, or one with different policies, without sending them",
            body=DiffBody,
            responses={200: DiffResult},
        )

    async def replay(self, call: ApiCall[None, ReplayBody]) -> ApiReply:
        body, caller = call.body, call.principal
        receipt = await self.replayer.find_receipt(call.workspace, call.path["receipt"])
        choice = build_choice(body, receipt["id"], body.given, caller)
        resolved = await self.replayer.replay(caller, receipt, choice)
        resolved.require_readable(caller)
        return ApiReply(describe_replay(receipt, resolved))

    async def compare(self, call: ApiCall[None, DiffBody]) -> ApiReply:
        before, after = call.body.before, call.body.after
        source = after if after.names_request else before
        first = await self._resolve(call.principal, before, before, "/from")
        second = await self._resolve(call.principal, after, source, "/to")
        return ApiReply(await self.replayer.compare(first, second))

    async def _resolve(
        self, caller: Principal, side: DiffSideBody, source: DiffSideBody, pointer: str
    ) -> ResolvedRequest:
        """One side of a comparison; the policies are those of the side, the request may be the other's."""
        receipt = source.receipt
        if receipt is not None and not caller.role.covers(Role.ADMIN):
            raise Forbidden(f"Receipts need a key with the role admin; yours has {caller.role.value}.")
        if receipt is None and side.as_of == AS_OF_RECEIPT:
            raise InvalidObject("There is no receipt.", [FieldError(f"{pointer}/as_of", "names a receipt; send one")])
        resolved = await self.replayer.resolve(caller, build_choice(side, receipt, source.given, caller))
        if receipt is not None:
            resolved.require_readable(caller)
        return resolved


def build_choice(side: ReplayBody, receipt: str | None, given: GivenRequest, caller: Principal) -> RequestChoice:
    return RequestChoice(given, receipt, side.choose_policies(caller), side.as_of == AS_OF_RECEIPT)
