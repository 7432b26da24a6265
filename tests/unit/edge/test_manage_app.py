"""The routes of the management API: matching, roles, query and body, problems."""

import pytest
from starlette.applications import Starlette

from gateway.domain.principal import Principal, Role
from gateway.edge.manage.app import build_api_app
from gateway.edge.manage.resource_types import ResourceTypeRoutes
from gateway.resources.registry import load_registry
from gateway.settings import LimitSettings
from tests.support.management_asgi import ask
from tests.support.thing_routes import ThingRoutes


@pytest.fixture
def manage() -> Starlette:
    return build_api_app([ThingRoutes(), ResourceTypeRoutes(load_registry())], LimitSettings(body_bytes=2000))


async def test_a_literal_path_goes_before_a_parameter(manage: Starlette) -> None:
    assert (await ask(manage, "GET", "/things/special")).status == 204
    assert (await ask(manage, "GET", "/things/other")).json == {"name": "other", "size": 0}


async def test_a_literal_path_does_not_take_the_methods_of_a_parameter(manage: Starlette) -> None:
    answer = await ask(manage, "DELETE", "/things/special")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")


@pytest.mark.parametrize("path", ["/things/lamp/", "//things/lamp", "/%74hings/lam%70"])
async def test_a_path_has_one_meaning_in_every_spelling(manage: Starlette, path: str) -> None:
    assert (await ask(manage, "GET", path)).json["name"] == "lamp"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/tree/a", "a"),
        ("/tree/a/b/c", "a/b/c"),
        ("/tree/a%2Fb", "a/b"),
        ("/tree/a/b/kin", "kin of a/b"),
        ("/tree/a%2Fb/kin", "kin of a/b"),
        ("/tree/kin", "kin"),
        ("/tree/%C3%A9", "é"),
    ],
)
async def test_a_span_takes_several_segments(manage: Starlette, path: str, name: str) -> None:
    assert (await ask(manage, "GET", path)).json["name"] == name


@pytest.mark.parametrize("path", ["/things/%", "/things/%G1", "/things/%FF"])
async def test_a_path_that_cannot_be_decoded_is_a_400(manage: Starlette, path: str) -> None:
    answer = await ask(manage, "GET", path)
    assert (answer.status, answer.json["code"]) == (400, "invalid_request")


async def test_an_unknown_path_is_a_404_problem(manage: Starlette) -> None:
    answer = await ask(manage, "GET", "/nothing")
    assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json["type"] == "urn:context-gateway:problem:unknown_endpoint"
    assert answer.json["title"] == "Not Found"


async def test_a_method_that_is_not_there_is_a_405_that_names_the_others(manage: Starlette) -> None:
    answer = await ask(manage, "PATCH", "/things/x")
    assert (answer.status, answer.headers["allow"]) == (405, "DELETE, GET, HEAD, OPTIONS")
    options = await ask(manage, "OPTIONS", "/things")
    assert (options.status, options.headers["allow"], options.raw) == (204, "GET, HEAD, OPTIONS, POST", b"")


async def test_head_has_the_headers_of_get_and_no_body(manage: Starlette) -> None:
    whole, head = await ask(manage, "GET", "/things/x"), await ask(manage, "HEAD", "/things/x")
    assert (head.raw, head.headers) == (b"", whole.headers)


@pytest.mark.parametrize(("role", "status"), [(Role.CHAT, 403), (Role.EDITOR, 200), (Role.ADMIN, 200)])
async def test_the_role_has_to_cover_the_routes(manage: Starlette, role: Role, status: int) -> None:
    answer = await ask(manage, "GET", "/things/x", principal=Principal("p", role=role))
    assert answer.status == status


async def test_the_role_is_checked_before_the_body_is_looked_at(manage: Starlette) -> None:
    answer = await ask(manage, "POST", "/things", b"{", principal=Principal("p", role=Role.CHAT))
    assert answer.status == 403


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("skip=-1", "skip"),
        ("take=0", "take"),
        ("take=1001", "take"),
        ("take=1_0", "take"),
        ("take=%205", "take"),
        ("take=", "take"),
        ("take=1&take=2", "take"),
        ("filter=" + "x" * 201, "filter"),
    ],
)
async def test_a_wrong_query_is_a_422_that_names_the_parameter(manage: Starlette, query: str, parameter: str) -> None:
    answer = await ask(manage, "GET", f"/things?{query}")
    assert (answer.status, answer.json["code"]) == (422, "invalid")
    assert [fault["parameter"] for fault in answer.json["errors"]] == [parameter]


@pytest.mark.parametrize(
    ("method", "target", "detail"),
    [
        ("GET", "/things?taek=1", "There is no query parameter 'taek'. This operation takes skip, take, filter."),
        (
            "GET",
            "/things?take=0&taek=1",
            "There is no query parameter 'taek'. This operation takes skip, take, filter.",
        ),
        ("DELETE", "/things/defect?dry_run=1", "There is no query parameter 'dry_run'. This operation takes none."),
        ("DELETE", "/things/defect?dry_run", "There is no query parameter 'dry_run'. This operation takes none."),
        ("GET", "/things/a?" + "x" * 5000, f"There is no query parameter '{'x' * 80}…'. This operation takes none."),
    ],
)
async def test_an_unknown_parameter_is_a_422_that_names_the_known_ones(
    manage: Starlette, method: str, target: str, detail: str
) -> None:
    answer = await ask(manage, method, target)
    assert (answer.status, answer.json["code"]) == (422, "invalid")
    assert [fault["message"] for fault in answer.json["errors"]] == [detail]


async def test_a_query_that_cannot_be_decoded_is_a_400_also_where_there_are_no_parameters(manage: Starlette) -> None:
    assert (await ask(manage, "DELETE", "/things/defect?%ff")).status == 400


async def test_a_query_is_decoded(manage: Starlette) -> None:
    assert (await ask(manage, "GET", "/things?filter=a%20b+c&take=7")).json == {"name": "a b c", "size": 7}


async def test_all_faults_of_a_body_are_pointed_at(manage: Starlette) -> None:
    answer = await ask(manage, "POST", "/things", {"size": "x", "nmae": 1})
    assert answer.status == 422
    assert {fault["pointer"] for fault in answer.json["errors"]} == {"/name", "/size", "/nmae"}
    assert "did you mean 'name'" in answer.raw.decode()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"\xff",
        b'{"name": NaN}',
        b'{"name": "\\ud800"}',
        b"[" * 70 + b"]" * 70,
        b"[" * 900,
        b'{"size": 1e30}',
    ],
)
async def test_what_is_not_json_is_a_400(manage: Starlette, raw: bytes) -> None:
    answer = await ask(manage, "POST", "/things", raw)
    assert (answer.status, answer.json["code"]) == (400, "invalid_json")


async def test_other_media_and_large_bodies_are_refused(manage: Starlette) -> None:
    assert (await ask(manage, "POST", "/things", b"{}", content_type="text/plain")).status == 415
    assert (await ask(manage, "POST", "/things", {"name": "x" * 3000})).status == 413
    assert (await ask(manage, "PUT", "/files/a", b"12345678901", content_type="text/plain")).status == 413
    assert (await ask(manage, "PUT", "/files/a", b"{}")).status == 415


async def test_bytes_go_in_and_come_out(manage: Starlette) -> None:
    answer = await ask(manage, "PUT", "/files/a", b"hello", content_type="text/plain; charset=utf-8")
    assert (answer.raw, answer.headers["content-type"]) == (b"HELLO", "text/plain")


async def test_what_is_created_has_a_location_and_a_tag(manage: Starlette) -> None:
    answer = await ask(manage, "POST", "/things", {"name": "lamp"})
    assert answer.status == 201
    assert (answer.headers["location"], answer.headers["etag"]) == ("/api/v1/things/lamp", '"1-abc"')


@pytest.mark.parametrize(
    ("tags", "status"), [('"1-abc"', 304), ('W/"1-abc"', 304), ('"x", "1-abc"', 304), ("*", 304), ('"2-abc"', 200)]
)
async def test_a_known_tag_saves_the_body(manage: Starlette, tags: str, status: int) -> None:
    answer = await ask(manage, "GET", "/things/x", if_none_match=tags)
    assert (answer.status, answer.headers["etag"]) == (status, '"1-abc"')


@pytest.mark.parametrize(
    ("thing", "status", "code"),
    [
        ("missing", 404, "not_found"),
        ("taken", 409, "conflict"),
        ("faulty", 422, "invalid"),
        ("down", 503, "store_unavailable"),
        ("full", 507, "store_full"),
        ("defect", 500, "internal_error"),
    ],
)
async def test_failures_are_problems_that_leak_nothing(manage: Starlette, thing: str, status: int, code: str) -> None:
    answer = await ask(manage, "DELETE", f"/things/{thing}")
    assert (answer.status, answer.json["status"], answer.json["code"]) == (status, status, code)
    assert "secret" not in answer.raw.decode()


async def test_a_fault_has_its_pointer(manage: Starlette) -> None:
    answer = await ask(manage, "DELETE", "/things/faulty")
    assert answer.json["errors"] == [{"pointer": "/a~1b", "message": "is wrong"}]


async def test_resource_types_come_with_the_schema_of_their_data(manage: Starlette) -> None:
    every = (await ask(manage, "GET", "/resource-types")).json
    assert every["total"] == len(every["items"]) == len(load_registry().list_aliases())
    voice = (await ask(manage, "GET", "/resource-types/brand-voice")).json
    assert (voice["key"], "tone" in voice["data"]["properties"]) == ("voice", True)
    assert (await ask(manage, "GET", "/resource-types?filter=brand")).json["total"] == 1
    assert (await ask(manage, "GET", "/resource-types?skip=1&take=1")).json["items"] == every["items"][1:2]
    assert (await ask(manage, "GET", "/resource-types/nothing")).status == 404
