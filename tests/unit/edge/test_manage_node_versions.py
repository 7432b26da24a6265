"""`/content/{node}/versions` and `/rollback`: what a node was, and how it comes back."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.principal import Principal, Role
from tests.support.managed_gateway import CHAT, ManagedGateway, running_management
from tests.support.management_asgi import Answer

FILES = {
    "contexts": {"voice": {}, "blog": {}},
    "content": {"site": {"id": "root", "contexts": ["voice"], "children": {"news": {"body": "Old news"}}}},
}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncGenerator[ManagedGateway]:
    async with running_management(tmp_path, FILES) as gateway:
        yield gateway


async def make(api: ManagedGateway, key: str, parent: str | None = None, **sent: Any) -> Answer:
    made = await api.ask("POST", "/content", {"key": key, "parent": parent, "id": key, **sent})
    assert made.status == 201, made.raw
    return made


async def back(api: ManagedGateway, node: str, version: int, **headers: Any) -> Answer:
    return await api.ask("POST", f"/content/{node}/rollback", {"version": version}, **headers)


def pointers(answer: Answer) -> list[str]:
    assert answer.status == 422, answer.raw
    return [fault["pointer"] for fault in answer.json["errors"]]


async def test_versions_are_listed_read_and_compared_by_id_or_path(api: ManagedGateway) -> None:
    await make(api, "post", "site/news", title="First")
    await api.ask("PUT", "/content/post", {"title": "Second", "contexts": ["blog"]})
    for name in ("post", "site/news/post", "site%2Fnews%2Fpost"):
        listed = (await api.ask("GET", f"/content/{name}/versions?take=1")).json
        assert (listed["total"], [one["version"] for one in listed["items"]]) == (2, [2])
        former = (await api.ask("GET", f"/content/{name}/versions/1")).json
        assert (former["action"], former["by"]) == ("create", "anna")
        assert former["body"] == {"key": "post", "parent": "site/news", "title": "First"}
        compared = (await api.ask("GET", f"/content/{name}/versions/compare?from=1&to=2")).json
        assert compared["changes"] == [
            {"pointer": "/title", "from": "First", "to": "Second"},
            {"pointer": "/contexts", "from": None, "to": ["blog"]},
        ]
    for number in ("3", "0", "x"):
        assert (await api.ask("GET", f"/content/post/versions/{number}")).status == 404
    assert (await api.ask("GET", "/content/post/versions/compare?from=1&to=9")).status == 404


async def test_a_rollback_makes_a_new_version_and_wants_the_right_tag(api: ManagedGateway) -> None:
    old = (await make(api, "post", title="First")).headers["etag"]
    tag = (await api.ask("PUT", "/content/post", {"title": "Second"})).headers["etag"]
    assert (await back(api, "post", 1, if_match=old)).status == 412
    answer = await back(api, "post", 1, if_match=tag)
    assert (answer.json["title"], answer.json["version"], answer.json["path"]) == ("First", 3, "post")
    assert answer.headers["etag"] == (await api.ask("GET", "/content/post")).headers["etag"]
    assert (await api.ask("GET", "/content/post/versions")).json["items"][0]["action"] == "rollback"
    assert (await back(api, "post", 9)).status == 404
    assert pointers(await api.ask("POST", "/content/post/rollback", {"version": "1"})) == ["/version"]


async def test_a_rollback_moves_a_node_back_with_everything_below_it(api: ManagedGateway) -> None:
    await make(api, "a")
    await make(api, "b", "a")
    await api.ask("PUT", "/content/a", {"key": "alpha", "parent": "site/news"})
    assert (await api.ask("GET", "/content/b")).json["path"] == "site/news/alpha/b"
    assert (await back(api, "site/news/alpha", 1)).json["path"] == "a"
    assert (await api.ask("GET", "/content/b")).json["path"] == "a/b"


async def test_a_deleted_node_comes_back_by_its_id_at_its_place(api: ManagedGateway) -> None:
    made = await make(api, "post", "site/news", id="p/1", title="First", links=["root"])
    await api.ask("DELETE", "/content/p%2F1")
    listed = (await api.ask("GET", "/content/p%2F1/versions")).json
    assert [one["action"] for one in listed["items"]] == ["delete", "create"]
    assert (await api.ask("GET", "/content/p%2F1/versions/2")).json["body"] is None
    assert pointers(await back(api, "p%2F1", 2)) == ["/version"]
    assert (await back(api, "p%2F1", 1, if_match="*")).status == 412
    assert (await back(api, "site/news/post", 1)).status == 404  # nothing has this path
    again = await back(api, "p/1", 1)
    kept = ("id", "path", "title", "links", "created_at")
    assert [again.json[name] for name in kept] == [made.json[name] for name in kept]
    assert again.json["version"] == 3


async def test_what_has_lost_its_place_does_not_come_back(api: ManagedGateway) -> None:
    await make(api, "a")
    await make(api, "b", "a")
    await api.ask("DELETE", "/content/a?recursive=true")
    assert pointers(await back(api, "b", 1)) == ["/parent"]
    await make(api, "a", id="other")
    assert (await api.ask("GET", "/content/b/versions")).json["total"] == 2
    assert pointers(await back(api, "b", 1)) == ["/parent"]  # its parent is a node, not a path
    await api.ask("DELETE", "/content/other")
    assert (await back(api, "a", 1)).status == 200
    assert (await back(api, "b", 1)).json["path"] == "a/b"


async def test_a_path_that_is_taken_is_a_conflict(api: ManagedGateway) -> None:
    await make(api, "post", "root", id="first")
    await api.ask("DELETE", "/content/first")
    await make(api, "post", "root", id="second")
    assert (await back(api, "first", 1)).status == 409
    await api.ask("PUT", "/content/second", {"key": "moved"})
    assert (await back(api, "first", 1)).status == 200
    refused = await back(api, "second", 1)
    assert (refused.status, "site/post" in refused.json["detail"]) == (409, True)
    assert (await api.ask("GET", "/content/second")).json["path"] == "site/moved"


async def test_a_node_does_not_become_its_own_ancestor(api: ManagedGateway) -> None:
    await make(api, "a")
    await make(api, "b", "a")
    await api.ask("PUT", "/content/b", {"parent": None})
    await api.ask("PUT", "/content/a", {"parent": "b"})
    assert pointers(await back(api, "b", 1)) == ["/parent"]


async def test_what_a_version_refers_to_has_to_be_there(api: ManagedGateway) -> None:
    await api.ask("POST", "/contexts", {"alias": "brief"})
    await make(api, "post", contexts=["voice", "brief"])
    await api.ask("PUT", "/content/post", {})
    await api.ask("DELETE", "/contexts/brief")
    assert pointers(await back(api, "post", 1)) == ["/contexts/1"]


async def test_nodes_of_files_have_no_versions(api: ManagedGateway) -> None:
    for name in ("root", "site/news"):
        assert (await api.ask("GET", f"/content/{name}/versions")).json == {"items": [], "total": 0}
        assert (await api.ask("GET", f"/content/{name}/versions/1")).status == 404
        assert (await back(api, name, 1)).status == 409


async def test_a_path_that_ends_like_an_operation_is_escaped(api: ManagedGateway) -> None:
    for key in ("versions", "rollback"):
        await make(api, key, "site/news", id=f"id-{key}")
    await make(api, "intro", "id-versions")
    assert (await api.ask("GET", "/content/site/news/versions")).json == {"items": [], "total": 0}
    assert (await api.ask("GET", "/content/site/news%2Fversions")).json["id"] == "id-versions"
    assert (await api.ask("GET", "/content/site%2Fnews%2Fversions/versions")).json["total"] == 1
    assert (await api.ask("GET", "/content/site/news%2Fversions/intro")).json["id"] == "intro"
    assert (await api.ask("GET", "/content/site%2Fnews%2Frollback")).json["id"] == "id-rollback"
    assert (await api.ask("POST", "/content/site%2Fnews%2Frollback/rollback", {"version": 1})).json["version"] == 2


async def test_others_find_nothing_to_bring_back(api: ManagedGateway) -> None:
    await make(api, "post")
    await api.ask("DELETE", "/content/post")
    stranger = Principal("eve", "elsewhere", role=Role.EDITOR)
    for path in ("versions", "versions/1", "versions/compare?from=1&to=2"):
        assert (await api.ask("GET", f"/content/post/{path}", by=stranger)).status == 404
        assert (await api.ask("GET", f"/content/post/{path}", by=CHAT)).status == 403
    sent = {"version": 1}
    assert (await api.ask("POST", "/content/post/rollback", sent, by=stranger)).status == 404
    assert (await api.ask("POST", "/content/post/rollback", sent, by=CHAT)).status == 403
