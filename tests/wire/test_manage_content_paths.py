"""Nodes over a socket: ids and paths with their slashes escaped or not, and what a change does to the next request."""

import pytest

from tests.support.gateway import Start
from tests.support.management_client import manage
from tests.support.upstream import Upstream, say

POLICIES = {
    "contexts": {
        "plain": {"resources": {"a": {"type": "text", "data": {"content": "Write plainly."}}}},
        "loud": {"resources": {"b": {"type": "text", "data": {"content": "Shout it out."}}}},
    },
    "content": {"site": {"contexts": ["plain"], "children": {"blog": {}}}},
}


@pytest.mark.parametrize("name", ["site/blog", "site%2Fblog", "site%2fblog", "%2Fsite/blog", "site/blog/"])
async def test_a_path_is_understood_with_and_without_escapes(start: Start, name: str) -> None:
    client = start(policies=POLICIES)
    assert (await manage(client, "GET", f"/content/{name}")).json["id"] == "site/blog"
    assert (await manage(client, "GET", "/content/site%2Fblog/context")).json["inherited_from"] == "site"


async def test_an_assignment_serves_the_next_request(start: Start, upstream: Upstream) -> None:
    client = start(policies=POLICIES)
    made = await manage(client, "POST", "/content", {"key": "post", "parent": "site/blog"})
    assert made.status == 201
    where = made.headers["location"].removeprefix("/api/v1")
    upstream.will(say("1"), say("2"), say("3"))
    await client.chat(context={"content": "site/blog/post"})
    assert (await manage(client, "PUT", f"{where}/context", {"context": "loud"})).status == 200
    await client.chat(context={"content": "site/blog/post"})
    assert (await manage(client, "PUT", where, {"key": "moved", "contexts": ["loud"]})).status == 200
    await client.chat(context={"content": "site/blog/moved"})
    said = [str(request["messages"][0]["content"]) for request in upstream.requests]
    assert ["Shout" in text for text in said] == [False, True, True]
    assert ["plainly" in text for text in said] == [True, False, False]


async def test_a_node_that_was_deleted_serves_again_as_it_was(start: Start, upstream: Upstream) -> None:
    client = start(policies=POLICIES)
    made = await manage(client, "POST", "/content", {"key": "post", "parent": "site/blog", "contexts": ["loud"]})
    where = made.headers["location"].removeprefix("/api/v1")
    assert (await manage(client, "PUT", f"{where}/context", {"context": "plain"})).status == 200
    assert (await manage(client, "DELETE", where)).status == 204
    actions = [one["action"] for one in (await manage(client, "GET", f"{where}/versions")).json["items"]]
    assert actions == ["delete", "update", "create"]
    again = await manage(client, "POST", f"{where}/rollback", {"version": 1})
    assert (again.status, again.json["path"]) == (200, "site/blog/post")
    compared = await manage(client, "GET", "/content/site%2Fblog%2Fpost/versions/compare?from=2&to=4")
    assert [one["pointer"] for one in compared.json["changes"]] == ["/contexts/0"]
    upstream.will(say("1"))
    await client.chat(context={"content": "site/blog/post"})
    assert "Shout" in str(upstream.requests[0]["messages"][0]["content"])


@pytest.mark.parametrize("name", ["%", "%zz", "%ff", "a%00b", "..%2F..", "../keys"])
async def test_odd_paths_find_nothing_and_break_nothing(start: Start, name: str) -> None:
    answer = await manage(start(policies=POLICIES), "GET", f"/content/{name}")
    assert answer.status in (400, 404)
    assert answer.headers["content-type"] == "application/problem+json"
