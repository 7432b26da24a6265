"""`/me`: who the caller is and what it may do. `/sign-in`: exchange a key for a cookie, for browsers."""

from collections.abc import Iterator
from functools import partial
from typing import Literal

import msgspec
from pydantic import AwareDatetime, BaseModel, Field

from gateway.control.key_shape import KeyInfo, LimitsShape, to_datetime
from gateway.domain.principal import Principal, Role
from gateway.edge.manage.calls import ApiCall, ApiReply
from gateway.edge.manage.routes import ApiRoute
from gateway.edge.sign_ins import SECURE_COOKIE, SignIn, SignIns, format_cookie, read_token
from gateway.errors import Conflict, InvalidApiKey, NotFound
from gateway.settings import Settings

TAG = "me"
Right = Literal["chat", "edit", "admin", "act_for_users"]


class SignInView(BaseModel):
    """A sign-in; its token is in the cookie alone."""

    expires_at: AwareDatetime
    csrf_token: str = Field(description="To be sent as `x-csrf-token` with every call that is no GET.")


class FeatureView(BaseModel):
    """What this gateway has switched on."""

    semantic: bool
    receipts: bool
    receipt_text: bool = Field(description="Whether receipts hold the texts of requests and answers.")
    analytics: bool


class MeView(BaseModel):
    """The caller as its key describes it."""

    name: str
    key: str | None = Field(description="The id of the key; null: this gateway has no keys yet.")
    workspace: str
    role: Role
    rights: list[Right] = Field(description="What it may do: edit policies, manage keys and read receipts, …")
    agents: list[str] | None = Field(description="The agents that it may use; null: all.")
    agent: str | None = Field(description="The agent of all its requests, whatever they name.")
    models: list[str] | None
    groups: list[str]
    tier: str | None
    limits: LimitsShape
    expires_at: AwareDatetime | None
    sign_in: SignInView | None = Field(description="Null: the call was made with a key, or needs none.")
    features: FeatureView
    model: str | None = Field(description="The default model.")
    budget: int = Field(description="The default budget in tokens.")


class MeRoutes(msgspec.Struct, frozen=True):
    """The caller itself."""

    settings: Settings
    sign_ins: SignIns | None

    def list_routes(self) -> Iterator[ApiRoute]:
        route = partial(ApiRoute, role=Role.CHAT, tag=TAG)
        yield route(
            method="GET",
            path="/me",
            handler=self.describe,
            summary="Tell who you are and what you may do",
            responses={200: MeView},
        )
        yield route(
            method="POST",
            path="/sign-in",
            handler=self.sign_in,
            summary="Sign a browser in: a cookie then stands for the key of this call",
            responses={201: SignInView},
            errors=(NotFound, Conflict),
        )
        yield route(
            method="DELETE",
            path="/sign-in",
            handler=self.sign_out,
            summary="Sign out",
            responses={204: None},
            errors=(NotFound,),
        )

    async def describe(self, call: ApiCall[None, None]) -> ApiReply:
        settings, data = self.settings, KeyInfo(call.principal, None).data
        features = FeatureView(
            semantic=settings.semantic.enabled,
            receipts=settings.receipts.enabled,
            receipt_text=settings.receipts.text,
            analytics=settings.receipts.enabled and settings.analytics.enabled,
        )
        own = {
            "key": call.principal.key,
            "rights": list_rights(call.principal),
            "sign_in": None if call.sign_in is None else describe_sign_in(call.sign_in),
            "features": features,
            "model": settings.defaults.model,
            "budget": settings.defaults.budget,
        }
        return ApiReply(MeView.model_validate({**data, **own}))

    async def sign_in(self, call: ApiCall[None, None]) -> ApiReply:
        sign_ins = self._require_sign_ins()
        if call.sign_in is not None:
            raise InvalidApiKey("You are signed in. To sign in anew, send the key as 'Authorization: Bearer <key>'.")
        if call.principal.key is None:
            raise Conflict("This gateway has no keys yet: everybody on its machine may use it without signing in.")
        pairs = tuple(call.headers.items())
        if (former := read_token(pairs)) is not None:
            await sign_ins.end(former)
        sign_in = await sign_ins.create(call.principal)
        secure = call.headers.get(b"origin", b"").startswith(b"https://")
        cookie = format_cookie(sign_in, secure=secure, seconds=sign_ins.count_seconds(sign_in))
        return ApiReply(describe_sign_in(sign_in), 201, headers={"set-cookie": cookie})

    async def sign_out(self, call: ApiCall[None, None]) -> ApiReply:
        sign_ins = self._require_sign_ins()
        if call.sign_in is None:
            raise NotFound("You are not signed in: this call was made with a key.")
        await sign_ins.end(call.sign_in.token)
        secure = SECURE_COOKIE.encode() + b"=" in call.headers.get(b"cookie", b"")
        return ApiReply(status_code=204, headers={"set-cookie": format_cookie(None, secure=secure, seconds=0)})

    def _require_sign_ins(self) -> SignIns:
        if self.sign_ins is None:
            raise NotFound("Nobody can sign in, because the console is switched off (`console: false`).")
        return self.sign_ins


def list_rights(principal: Principal) -> list[Right]:
    """What a caller may do, as far as its role and its key say."""
    by_role: tuple[tuple[Right, Role], ...] = (("chat", Role.CHAT), ("edit", Role.EDITOR), ("admin", Role.ADMIN))
    rights: list[Right] = [right for right, role in by_role if principal.role.covers(role)]
    return [*rights, "act_for_users"] if principal.may_act_for_users else rights


def describe_sign_in(sign_in: SignIn) -> SignInView:
    return SignInView(expires_at=to_datetime(sign_in.expires), csrf_token=sign_in.csrf_token)
