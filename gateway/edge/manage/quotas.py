"""`/quotas`: what a workspace may store, and how much of it is used."""

from collections.abc import Iterator

import msgspec
from msgspec.structs import asdict
from pydantic import BaseModel, Field

from gateway.conversation.stored_responses import StoredResponses
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply
from gateway.edge.manage.routes import ApiRoute
from gateway.knowledge.repository import KnowledgeRepository
from gateway.policies.quotas import QuotaUse
from gateway.policies.repository import PolicyRepository
from gateway.sessions.sessions import Sessions


class QuotaView(BaseModel):
    """One quota."""

    name: str = Field(description="As in the configuration under `quotas`.")
    limit: int
    used: int


class QuotaList(BaseModel):
    """Every quota by name."""

    items: list[QuotaView]


class QuotaRoutes(msgspec.Struct, frozen=True):
    """The quotas of the caller's own workspace."""

    policies: PolicyRepository
    sessions: Sessions
    knowledge: KnowledgeRepository
    responses: StoredResponses

    def list_routes(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/quotas",
            handler=self.list,
            role=Role.EDITOR,
            tag="quotas",
            summary="List what the workspace may store and has stored",
            responses={200: QuotaList},
        )

    async def list(self, call: ApiCall[None, None]) -> ApiReply:
        uses = self.policies.list_quotas(call.workspace)
        limits = self.policies.get_quota_limits(call.workspace)
        uses.append(QuotaUse("sessions", limits.sessions, await self.sessions.count(call.workspace)))
        kept = await self.responses.count_bytes(call.workspace)
        uses.append(QuotaUse("response_bytes", limits.response_bytes, kept))
        uses += self.knowledge.list_quotas(call.workspace)
        return ApiReply(QuotaList(items=[QuotaView(**asdict(one)) for one in sorted(uses, key=lambda use: use.name)]))
