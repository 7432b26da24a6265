"""`/adopt`, `/release` and `/adopted`: stored objects that take over from those of policy files."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gateway.control.adoption import Adoption, AdoptionStep
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply
from gateway.edge.manage.routes import WRITE_ERRORS, ApiRoute
from gateway.edge.manage.versions import ChangeView
from gateway.policies.repository import PolicyRepository
from gateway.policies.workspace import ADOPTED_KINDS, AdoptedName

TAG = "adoption"
KIND_PATTERN = "|".join(ADOPTED_KINDS)
ObjectName = Annotated[str, StringConstraints(pattern=rf"^({KIND_PATTERN})/.+$", max_length=600)]


class AdoptionRequest(BaseModel):
    """Which objects, such as `contexts/seo`; a node by its id."""

    model_config = ConfigDict(extra="forbid")

    objects: Annotated[list[ObjectName], Field(max_length=10_000)] | None = Field(None, description="Null: all.")
    dry_run: bool = Field(False, strict=True, description="Only report what would happen.")

    def list_names(self) -> set[AdoptedName] | None:
        if self.objects is None:
            return None
        return {(kind, alias) for kind, _, alias in (name.partition("/") for name in self.objects)}


class AdoptionStepView(BaseModel):
    """What happens to one object."""

    kind: str
    alias: str
    action: Literal["adopt", "release", "unchanged"]
    file: str | None = Field(description="File and line of the file's entry; null: it is gone.")
    reason: str | None = Field(description="Why nothing happens.")
    changes: list[ChangeView] = Field(description="What is different afterwards; adopting changes nothing.")


class AdoptionResult(BaseModel):
    """What was done, or would be."""

    dry_run: bool
    items: list[AdoptionStepView]
    total: int
    snapshot: str = Field(description="The first 12 hex digits of the policies' hash.")


class AdoptedObject(BaseModel):
    """A stored object that takes over from a file's."""

    kind: str
    alias: str
    file: str | None = Field(description="File and line of the shadowed entry; null: it is gone.")


class AdoptedList(BaseModel):
    """Everything that was adopted."""

    items: list[AdoptedObject]
    total: int


class AdoptionRoutes(msgspec.Struct, frozen=True):
    """Adoption in the caller's own workspace."""

    adoption: Adoption
    policies: PolicyRepository

    def list_routes(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/adopted",
            handler=self.list,
            role=Role.EDITOR,
            tag=TAG,
            summary="List the stored objects that were adopted from policy files",
            responses={200: AdoptedList},
        )
        change = partial(
            ApiRoute,
            method="POST",
            role=Role.ADMIN,
            tag=TAG,
            body=AdoptionRequest,
            responses={200: AdoptionResult},
            errors=WRITE_ERRORS,
        )
        yield change(
            path="/adopt",
            handler=self.adopt,
            summary="Let stored objects take over from those of policy files; nothing else changes",
        )
        yield change(
            path="/release",
            handler=self.release,
            summary="Give adopted objects back to the policy files, and delete what was stored",
        )

    async def list(self, call: ApiCall[None, None]) -> ApiReply:
        found = []
        for kind, alias in sorted(self.policies.list_adopted(call.workspace)):
            entry = self.policies.find_file_entry(kind, alias)
            found.append(AdoptedObject(kind=kind, alias=alias, file=None if entry is None else str(entry.location)))
        return ApiReply(AdoptedList(items=found, total=len(found)))

    async def adopt(self, call: ApiCall[None, AdoptionRequest]) -> ApiReply:
        sent = call.body
        steps = await self.adoption.adopt(call.principal, sent.list_names(), dry_run=sent.dry_run)
        return self._reply(call, steps)

    async def release(self, call: ApiCall[None, AdoptionRequest]) -> ApiReply:
        sent = call.body
        steps = await self.adoption.release(call.principal, sent.list_names(), dry_run=sent.dry_run)
        return self._reply(call, steps)

    def _reply(self, call: ApiCall[None, AdoptionRequest], steps: Sequence[AdoptionStep]) -> ApiReply:
        snapshot = self.policies.get_snapshot(call.workspace).hash[:12]
        views = [_build_view(step) for step in steps]
        return ApiReply(AdoptionResult(dry_run=call.body.dry_run, items=views, total=len(views), snapshot=snapshot))


def _build_view(step: AdoptionStep) -> AdoptionStepView:
    return AdoptionStepView(
        kind=step.kind,
        alias=step.alias,
        action=step.action,
        file=step.file,
        reason=step.reason,
        changes=[ChangeView.model_validate(one) for one in step.changes],
    )
