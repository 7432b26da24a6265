"""`/keys`: the keys of the caller's workspace. A key is shown once, when it is made; its hash never."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import AwareDatetime, BaseModel, Field

from gateway.control.key_shape import KeyWish, Label, LimitsShape
from gateway.control.keys import KeyInfo, Keys
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply, created, found, no_content, ok
from gateway.edge.manage.routes import ApiRoute, ListQuery
from gateway.errors import Conflict, NotFound

TAG = "keys"


class KeyRequest(KeyWish):
    """What a new key may do. What is left out is as in your own key, where that is restricted."""

    workspace: Label | None = Field(None, description="Only your own.")


class KeyView(BaseModel):
    """A key, without what only its holder may know."""

    id: str
    name: str
    workspace: str
    role: Role
    agents: list[str] | None = Field(description="The agents that it may use; null: all.")
    agent: str | None = Field(description="The agent of requests that name none.")
    groups: list[str] = Field(description="Groups that it belongs to in reader lists; `*`: every group.")
    tier: str | None
    limits: LimitsShape
    act_for_users: bool
    expires_at: AwareDatetime | None
    source: Literal["store", "config"] = Field(description="Keys of the configuration can only be read.")
    version: int
    updated_at: AwareDatetime | None
    updated_by: str | None


class NewKey(KeyView):
    """A key that was just made."""

    key: str = Field(description="The key itself. It is shown this once and kept nowhere.")


class KeyPage(BaseModel):
    """A part of the list of keys."""

    items: list[KeyView]
    total: int


@dataclass(frozen=True, slots=True)
class KeyNoun:
    """Keys as resources of the API."""

    keys: Keys

    def routes(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/keys",
            handler=self.list,
            role=Role.ADMIN,
            tag=TAG,
            summary="List the keys of the workspace",
            query=ListQuery,
            responses={200: KeyPage},
        )
        yield ApiRoute(
            method="POST",
            path="/keys",
            handler=self.create,
            role=Role.ADMIN,
            tag=TAG,
            summary="Make a key; it is shown this once",
            body=KeyRequest,
            responses={201: NewKey},
            errors=(Conflict,),
        )
        yield from self._of_one()

    def _of_one(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/keys/{key}",
            handler=self.get,
            role=Role.ADMIN,
            tag=TAG,
            summary="One key",
            responses={200: KeyView},
            errors=(NotFound,),
            conditional=True,
        )
        yield ApiRoute(
            method="PUT",
            path="/keys/{key}",
            handler=self.update,
            role=Role.ADMIN,
            tag=TAG,
            summary="Change what a key may do",
            body=KeyWish,
            responses={200: KeyView},
            errors=(NotFound, Conflict),
            conditional=True,
        )
        yield ApiRoute(
            method="DELETE",
            path="/keys/{key}",
            handler=self.revoke,
            role=Role.ADMIN,
            tag=TAG,
            summary="Revoke a key; no node accepts it two seconds later",
            responses={204: None},
            errors=(NotFound, Conflict),
            conditional=True,
        )

    async def list(self, call: ApiCall[ListQuery, None]) -> ApiReply:
        held = [one for one in self.keys.of(call.workspace) if _fits(one, call.query.filter)]
        page = held[call.query.skip :][: call.query.take]
        return ok(KeyPage(items=[_view(one) for one in page], total=len(held)))

    async def create(self, call: ApiCall[None, KeyRequest]) -> ApiReply:
        made = await self.keys.create(call.principal, call.body, call.body.workspace)
        body = NewKey.model_validate({**made.held.data, "key": made.secret})
        return created(f"/keys/{made.held.id}", body, made.held.tag)

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        held = self.keys.get(call.workspace, call.path["key"])
        return found(call, _view(held), held.tag)

    async def update(self, call: ApiCall[None, KeyWish]) -> ApiReply:
        held = await self.keys.update(call.principal, call.path["key"], call.body, call.if_match)
        return ok(_view(held), held.tag)

    async def revoke(self, call: ApiCall[None, None]) -> ApiReply:
        await self.keys.revoke(call.principal, call.path["key"], call.if_match)
        return no_content()


def _view(held: KeyInfo) -> KeyView:
    return KeyView.model_validate(held.data)


def _fits(held: KeyInfo, word: str) -> bool:
    return any(word.lower() in text.lower() for text in (held.id, held.principal.name))
