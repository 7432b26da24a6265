"""`/content`: nodes by id or path, their contexts and links."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.principal import Principal, Role
from tests.support.managed_gateway import CHAT, ManagedGateway, running_management

FILES = {
    "contexts": {"voice": {}, "blog": {"name": "The blog"}},
    "content": {"site": {"id": "root", "contexts": ["voice"], "children": {"news": {"body": "Old news"}}}},
}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncGenerator[ManagedGateway]:
    async with running_management(tmp_path, FILES) as gateway:
        yield gateway


async def make(api: ManagedGateway, **sent: Any) -> dict[str, Any]:
    made = await api.ask("POST", "/content", sent)
    assert made.status == 201, made.raw
    return dict(made.json)


async def test_a_node_is_made_read_replaced_and_deleted(api: ManagedGateway) -> None:
    made = await api.ask("POST", "/content", {"key": "post", "parent": "site/news", "id": "p/1", "title": "First"})
    assert (made.status, made.headers["location"]) == (201, "/api/v1/content/p%2F1")
    assert made.json["path"] == "site/news/post"
    for name in ("p%2F1", "p/1", "site/news/post", "site%2Fnews%2Fpost", "%2Fsite/news/post"):
        assert (await api.ask("GET", f"/content/{name}")).json["id"] == "p/1"
    read = await api.ask("GET", "/content/p%2F1")
    assert (await api.ask("GET", "/content/p%2F1", if_none_match=read.headers["etag"])).status == 304
    sent = {**read.json, "title": "Changed"}  # what was read may be sent back as it is
    put = await api.ask("PUT", "/content/p%2F1", sent, if_match=read.headers["etag"])
    assert (put.status, put.json["title"], put.json["version"]) == (200, "Changed", 2)
    assert (await api.ask("PUT", "/content/p%2F1", sent, if_match=read.headers["etag"])).status == 412
    assert (await api.ask("PUT", "/content/p%2F1", {"title": "Again"}, if_none_match="*")).status == 412
    assert (await api.ask("PUT", "/content/p%2F2", {"title": "Again"}, if_none_match="*")).status == 404
    assert (await api.ask("GET", "/content/p%2F1")).json["title"] == "Changed"
    assert (await api.ask("DELETE", "/content/p%2F1")).status == 204
    assert (await api.ask("GET", "/content/p%2F1")).status == 404


async def test_a_list_is_flat_paged_and_filtered(api: ManagedGateway) -> None:
    for key in ("b", "a", "c"):
        await make(api, key=key, parent="root", title=f"Page {key.upper()}")
    every = (await api.ask("GET", "/content")).json
    assert [item["path"] for item in every["items"]] == ["site", "site/a", "site/b", "site/c", "site/news"]
    page = (await api.ask("GET", "/content?skip=1&take=2")).json
    assert ([item["path"] for item in page["items"]], page["total"]) == (["site/a", "site/b"], 5)
    assert (await api.ask("GET", "/content?filter=page%20c")).json["items"][0]["path"] == "site/c"
    assert (await api.ask("GET", "/content?filter=SITE/N")).json["total"] == 1


async def test_the_tree_is_nested_and_as_deep_as_asked(api: ManagedGateway) -> None:
    await make(api, key="deep", parent="site/news", id="deep")
    [site] = (await api.ask("GET", "/content/tree")).json["items"]
    [news] = site["children"]
    assert [one["id"] for one in news["children"]] == ["deep"]
    [site] = (await api.ask("GET", "/content/tree?depth=1")).json["items"]
    assert (site["children"], site["more"]) == ([], 1)
    branch = (await api.ask("GET", "/content/tree?node=site/news")).json
    assert ([one["path"] for one in branch["items"]], branch["total"]) == (["site/news"], 2)
    assert (await api.ask("GET", "/content/tree?node=gone")).status == 404
    assert (await api.ask("GET", "/content/tree?depth=0")).status == 422


async def test_a_branch_is_deleted_only_when_asked_to(api: ManagedGateway) -> None:
    await make(api, key="a", id="a")
    await make(api, key="b", id="b", parent="a")
    assert (await api.ask("DELETE", "/content/a")).status == 409
    assert (await api.ask("DELETE", "/content/a?recursive=true")).status == 204
    assert (await api.ask("GET", "/content/b")).status == 404


async def test_nodes_of_files_name_their_file(api: ManagedGateway) -> None:
    read = (await api.ask("GET", "/content/root")).json
    assert (read["source"], read["version"]) == ("file", 0)
    assert read["file"].rpartition("/")[2].startswith("files.yaml:")
    for method, path, body in (
        ("PUT", "/content/root", {"title": "Mine"}),
        ("DELETE", "/content/root", None),
        ("PUT", "/content/root/context", {"context": "blog"}),
        ("DELETE", "/content/site/news/context", None),
    ):
        answer = await api.ask(method, path, body)
        assert answer.status == 409
        assert "files.yaml:" in answer.json["detail"]


async def test_contexts_of_a_node_are_assigned_and_in_effect(api: ManagedGateway) -> None:
    await make(api, key="a", id="a", parent="root")
    told = (await api.ask("GET", "/content/a/context")).json
    assert (told["assigned"], told["inherited_from"]) == ([], "site")
    assert told["effective"] == [
        {"context": "voice", "name": "Voice", "level": "content", "entity": "site", "inherited": True}
    ]
    put = await api.ask("PUT", "/content/site/a/context", {"contexts": ["blog"], "inherit": "merge"})
    assert [(one["context"], one["inherited"]) for one in put.json["effective"]] == [("voice", True), ("blog", False)]
    put = await api.ask("PUT", "/content/a/context", {"context": "blog", "inherit": "nearest"})
    assert ([one["context"] for one in put.json["effective"]], put.json["inherited_from"]) == (["blog"], None)
    assert (await api.ask("DELETE", "/content/a/context")).status == 204
    assert (await api.ask("GET", "/content/a/context")).json == told


@pytest.mark.parametrize(
    "sent", [{}, {"context": "blog", "contexts": ["blog"]}, {"contexts": ["unknown"]}, {"context": 1}]
)
async def test_an_assignment_has_to_make_sense(api: ManagedGateway, sent: dict[str, Any]) -> None:
    await make(api, key="a", id="a")
    answer = await api.ask("PUT", "/content/a/context", sent)
    assert (answer.status, bool(answer.json["errors"])) == (422, True)


async def test_links_lead_both_ways(api: ManagedGateway) -> None:
    await make(api, key="a", id="a", links=["site/news", "nowhere"])
    links = (await api.ask("GET", "/content/a/links")).json["links"]
    assert [(one["link"], one["id"]) for one in links] == [("site/news", "site/news"), ("nowhere", None)]
    assert (await api.ask("GET", "/content/site/news/links")).json["backlinks"][0]["id"] == "a"


async def test_a_node_called_context_is_reached_through_an_escaped_slash(api: ManagedGateway) -> None:
    await make(api, key="context", parent="root", id="c", title="A page about context")
    await make(api, key="tree", id="t")
    assert (await api.ask("GET", "/content/site%2Fcontext")).json["id"] == "c"
    assert "assigned" in (await api.ask("GET", "/content/site/context")).json
    assert (await api.ask("GET", "/content/%2Ftree")).json["id"] == "t"


async def test_other_workspaces_see_nothing_of_it(api: ManagedGateway) -> None:
    await make(api, key="a", id="a")
    other = Principal("bert", workspace="other", role=Role.EDITOR)
    mine, unknown = [await api.ask("GET", f"/content/{name}", by=other) for name in ("a", "zzz")]
    assert mine.json == {**unknown.json, "detail": unknown.json["detail"].replace("zzz", "a")}
    assert (await api.ask("DELETE", "/content/a", by=other)).status == 404


async def test_a_chat_key_may_not_look(api: ManagedGateway) -> None:
    assert (await api.ask("GET", "/content", by=CHAT)).status == 403
