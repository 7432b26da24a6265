"""Nodes over a socket: ids and paths with their slashes escaped or not, and what a change does to the next request."""

import pytest
from harness import Start
from management import manage
from upstream import Upstream, say

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


@pytest.mark.parametrize("name", ["%", "%zz", "%ff", "a%00b", "..%2F..", "../keys"])
async def test_odd_paths_find_nothing_and_break_nothing(start: Start, name: str) -> None:
    answer = await manage(start(policies=POLICIES), "GET", f"/content/{name}")
    assert answer.status in (400, 404)
    assert answer.headers["content-type"] == "application/problem+json"
