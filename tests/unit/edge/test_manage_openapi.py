"""The OpenAPI document follows the route table."""

import pytest
from starlette.applications import Starlette

from gateway.domain.principal import Principal, Role
from gateway.edge.manage.app import build_api_app, get_api_routes
from gateway.edge.manage.resource_types import ResourceTypeRoutes
from gateway.resources.registry import load_registry
from gateway.settings import LimitSettings
from tests.support.management_asgi import ask
from tests.support.thing_routes import ThingRoutes


@pytest.fixture
def manage() -> Starlette:
    return build_api_app([ThingRoutes(), ResourceTypeRoutes(load_registry())], LimitSettings())


async def test_a_chat_key_may_read_the_document(manage: Starlette) -> None:
    answer = await ask(manage, "GET", "/openapi.json", principal=Principal("p", role=Role.CHAT))
    assert (answer.status, answer.json["openapi"]) == (200, "3.1.0")


async def test_every_route_is_in_it_with_its_role_and_statuses(manage: Starlette) -> None:
    document = (await ask(manage, "GET", "/openapi.json")).json
    for route in get_api_routes(manage):
        operation = document["paths"][route.path_format][route.method.lower()]
        assert operation["x-role"] == route.role
        assert {str(status) for status in route.responses} <= operation["responses"].keys()
        assert {"401", "403", "500", "503"} <= operation["responses"].keys()
        assert [p["name"] for p in operation["parameters"] if p["in"] == "path"] == list(route.param_convertors)
    names = [inner["operationId"] for path in document["paths"].values() for inner in path.values()]
    assert len(set(names)) == len(names) == len(get_api_routes(manage))


async def test_every_reference_leads_somewhere(manage: Starlette) -> None:
    answer = await ask(manage, "GET", "/openapi.json")
    schemas = answer.json["components"]["schemas"]
    referred = {part.split('"')[0] for part in answer.raw.decode().split("#/components/schemas/")[1:]}
    assert referred
    assert referred <= schemas.keys()


async def test_bounds_bodies_and_conditions_are_declared(manage: Starlette) -> None:
    paths = (await ask(manage, "GET", "/openapi.json")).json["paths"]
    take = next(p for p in paths["/things"]["get"]["parameters"] if p["name"] == "take")
    assert (take["schema"]["minimum"], take["schema"]["maximum"]) == (1, 1000)
    assert {"400", "413", "415", "422"} <= paths["/things"]["post"]["responses"].keys()
    assert "Location" in paths["/things"]["post"]["responses"]["201"]["headers"]
    one = paths["/things/{thing}"]["get"]
    assert ("304" in one["responses"], one["parameters"][-1]["name"]) == (True, "If-None-Match")
    assert paths["/files/{name}"]["put"]["requestBody"]["content"] == {"text/plain": {}}
