"""Routes of a made-up kind of object, for tests of what serves all kinds."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply, reply_created, reply_empty, reply_if_changed
from gateway.edge.manage.paging import ListQuery
from gateway.edge.manage.routes import ApiRoute, MediaContent
from gateway.errors import Conflict, FieldError, InvalidObject, NotFound, StoreError, StoreFull


class Thing(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1)
    size: int = 0


FAILURES: dict[str, Exception] = {
    "missing": NotFound("There is no thing 'missing'."),
    "taken": Conflict("There is one."),
    "faulty": InvalidObject("No.", [FieldError("/a~1b", "is wrong")]),
    "down": StoreError("secret address"),
    "full": StoreFull("secret path"),
    "defect": RuntimeError("secret detail"),
}


class ThingRoutes:
    """Routes that show what arrives."""

    def list_routes(self) -> Iterator[ApiRoute]:
        common: dict[str, Any] = {"tag": "things", "summary": "For tests", "role": Role.EDITOR}
        yield ApiRoute(
            method="GET", path="/things", handler=self.list, query=ListQuery, responses={200: Thing}, **common
        )
        yield ApiRoute(method="POST", path="/things", handler=self.make, body=Thing, responses={201: Thing}, **common)
        yield ApiRoute(
            method="GET", path="/things/{thing}", handler=self.get, responses={200: Thing}, conditional=True, **common
        )
        yield ApiRoute(method="GET", path="/things/special", handler=self.special, responses={204: None}, **common)
        yield ApiRoute(method="DELETE", path="/things/{thing}", handler=self.fail, responses={204: None}, **common)
        yield ApiRoute(method="GET", path="/tree/{node:path}", handler=self.node, responses={200: Thing}, **common)
        yield ApiRoute(method="GET", path="/tree/{node:path}/kin", handler=self.kin, responses={200: Thing}, **common)
        yield ApiRoute(
            method="PUT",
            path="/files/{name}",
            handler=self.upload,
            body=MediaContent(("text/plain",), 10),
            responses={200: MediaContent(("text/plain",))},
            **common,
        )

    async def list(self, call: ApiCall[ListQuery, None]) -> ApiReply:
        return ApiReply(Thing(name=call.query.filter or "all", size=call.query.take))

    async def make(self, call: ApiCall[None, Thing]) -> ApiReply:
        return reply_created(f"/things/{call.body.name}", call.body, "1-abc")

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        return reply_if_changed(call, Thing(name=call.path["thing"]), "1-abc")

    async def special(self, call: ApiCall[None, None]) -> ApiReply:
        return reply_empty()

    async def fail(self, call: ApiCall[None, None]) -> ApiReply:
        raise FAILURES[call.path["thing"]]

    async def node(self, call: ApiCall[None, None]) -> ApiReply:
        return ApiReply(Thing(name=call.path["node"]))

    async def kin(self, call: ApiCall[None, None]) -> ApiReply:
        return ApiReply(Thing(name="kin of " + call.path["node"]))

    async def upload(self, call: ApiCall[None, bytes]) -> ApiReply:
        return ApiReply(call.body.upper(), media_type="text/plain")
