"""Contexts, profiles, agents and prompts over the management API."""

import asyncio
from typing import Any

import pytest

from gateway.domain.principal import Principal, Role
from gateway.domain.record import Author, RecordKey, RecordWrite
from gateway.edge.manage.app import get_api_routes
from gateway.errors import StoreError
from tests.support.managed_policies import ANNA, FILES, TEXT, ManagedPolicies, house, pointers

__all__ = ["house"]


async def test_what_is_created_can_be_read_by_alias_and_id(house: ManagedPolicies) -> None:
    made = await house.made("agents", "seo", description="Writes", contexts=["house"], profile="writing")
    assert made.headers["location"] == "/api/v1/agents/seo"
    body = made.json
    assert (body["name"], body["source"], body["file"], body["version"]) == ("Seo", "store", None, 1)
    assert (body["updated_by"], body["draft"], body["max_turns"]) == ("anna", False, None)
    assert body["created_at"] <= body["updated_at"]
    by_alias, by_id = await house.ask("GET", "/agents/seo"), await house.ask("GET", f"/agents/{body['id']}")
    assert by_alias.json == by_id.json == body
    assert by_alias.headers["etag"] == made.headers["etag"]
    assert house.policies.get_snapshot("default").agents["seo"].contexts == ("house",)


async def test_an_object_of_a_file_is_shown_in_full_and_cannot_be_changed(house: ManagedPolicies) -> None:
    profile = (await house.ask("GET", "/profiles/writing")).json
    assert (profile["source"], profile["file"], profile["id"]) == ("file", "all.yaml:9", "writing")
    assert (profile["contexts"], profile["budget"]) == (["house"], {"total": 4000, "max": None, "shares": None})
    for method, body in (("PUT", {}), ("DELETE", None)):
        refused = await house.ask(method, "/profiles/writing", body)
        assert (refused.status, "the file all.yaml:9" in refused.json["detail"]) == (409, True)
    taken = await house.ask("POST", "/profiles", {"alias": "writing"})
    assert (taken.status, "the file all.yaml:9" in taken.json["detail"]) == (409, True)


async def test_lists_are_sorted_paged_and_filtered(house: ManagedPolicies) -> None:
    for alias, name in (("zoo", "Animals"), ("ant", "Zealous"), ("mid", None)):
        await house.made("agents", alias, **({"name": name} if name else {"description": "About ZOOs"}))
    every = (await house.ask("GET", "/agents")).json
    assert ([one["alias"] for one in every["items"]], every["total"]) == (["zoo", "mid", "ant"], 3)
    part = (await house.ask("GET", "/agents?skip=1&take=1")).json
    assert ([one["alias"] for one in part["items"]], part["total"]) == (["mid"], 3)
    assert (await house.ask("GET", "/agents?filter=zoo")).json["total"] == 2
    assert (await house.ask("GET", "/agents?filter=ZEAL")).json["total"] == 1
    assert (await house.ask("GET", "/profiles")).json["total"] == 1


async def test_a_taken_alias_is_a_conflict(house: ManagedPolicies) -> None:
    await house.made("prompts", "meta")
    assert (await house.ask("POST", "/prompts", {"alias": "meta"})).status == 409


async def test_all_faults_are_pointed_at_and_nothing_is_stored(house: ManagedPolicies) -> None:
    sent = {"alias": "Bad Alias", "contexts": ["house", "hous"], "temperature": 9, "nmae": "x"}
    answer = await house.ask("POST", "/agents", sent)
    assert pointers(answer) == {"/alias", "/contexts/1", "/temperature", "/nmae"}
    assert "did you mean 'house'" in answer.raw.decode()
    assert (await house.ask("GET", "/agents")).json["total"] == 0


@pytest.mark.parametrize("sent", [[], 5, None, "x", {}, {"alias": 5}, {"alias": None}])
async def test_a_body_without_an_alias_is_refused(house: ManagedPolicies, sent: Any) -> None:
    raw = b"null" if sent is None else sent
    assert (await house.ask("POST", "/agents", raw)).status == 422


async def test_an_alias_never_changes(house: ManagedPolicies) -> None:
    await house.made("agents", "seo")
    assert pointers(await house.ask("PUT", "/agents/seo", {"alias": "other"})) == {"/alias"}
    assert (await house.ask("PUT", "/agents/seo", {"alias": "seo"})).status == 200


async def test_what_was_read_can_be_sent_back_and_makes_no_version(house: ManagedPolicies) -> None:
    await house.made("contexts", "brand", resources={"tone": TEXT}, valid_until="2999-01-01")
    read = await house.ask("GET", "/contexts/brand")
    again = await house.ask("PUT", "/contexts/brand", read.json)
    assert (again.json, again.headers["etag"]) == (read.json, read.headers["etag"])


async def test_an_update_replaces_the_whole_object(house: ManagedPolicies) -> None:
    await house.made("agents", "seo", description="Writes", temperature=0.5)
    body = (await house.ask("PUT", "/agents/seo", {"name": "Search"})).json
    assert (body["name"], body["description"], body["temperature"], body["version"]) == ("Search", "", None, 2)


async def test_if_match_guards_an_update_and_a_deletion(house: ManagedPolicies) -> None:
    tag = (await house.made("agents", "seo")).headers["etag"]
    fresh = (await house.ask("PUT", "/agents/seo", {"name": "A"}, if_match=tag)).headers["etag"]
    assert (await house.ask("PUT", "/agents/seo", {"name": "B"}, if_match=tag)).status == 412
    assert (await house.ask("PUT", "/agents/seo", {"name": "B"}, if_match=f"W/{fresh}")).status == 412
    assert (await house.ask("PUT", "/agents/seo", {"name": "B"}, if_match="nonsense")).status == 412
    assert (await house.ask("DELETE", "/agents/seo", if_match=tag)).status == 412
    assert (await house.ask("GET", "/agents/seo", if_none_match=fresh)).status == 304
    assert (await house.ask("DELETE", "/agents/seo", if_match=f'"x", {fresh}')).status == 204
    assert (await house.ask("GET", "/agents/seo")).status == 404


async def test_what_has_to_be_new_replaces_nothing(house: ManagedPolicies) -> None:
    text = {"type": "text", "data": {"content": "Warm."}}
    for path, first, second in (
        ("/contexts/brand", {"name": "A"}, {"name": "B"}),
        ("/contexts/brand/resources/tone", {**text, "name": "A"}, {**text, "name": "B"}),
    ):
        assert (await house.ask("PUT", path, first, if_none_match="*")).status == 201
        assert (await house.ask("PUT", path, second, if_none_match="*")).status == 412
        assert (await house.ask("GET", path)).json["name"] == "A"


async def test_an_unknown_object_is_a_404_everywhere(house: ManagedPolicies) -> None:
    for path in ("/agents/x", "/agents/x/versions", "/agents/x/versions/1", "/agents/x/draft", "/agents/%00"):
        assert (await house.ask("GET", path)).status == 404
    assert (await house.ask("PUT", "/agents/x", {}, if_match="*")).status == 404
    assert (await house.ask("DELETE", "/agents/x")).status == 404
    assert (await house.ask("POST", "/agents/x/publish")).status == 404
    assert (await house.ask("POST", "/agents/x/rollback", {"version": 1})).status == 404
    assert (await house.ask("GET", "/contexts/global")).status == 404


async def test_another_workspace_answers_as_if_nothing_were_there(house: ManagedPolicies) -> None:
    made = await house.made("agents", "seo")
    await house.ask("PUT", "/agents/next/draft", {})
    stranger = Principal("bob", workspace="other", role=Role.ADMIN)
    unknown = await house.ask("GET", "/agents/nope", principal=stranger)
    for name in ("seo", made.json["id"]):
        for method, path, body in (
            ("GET", f"/agents/{name}", None),
            ("PUT", f"/agents/{name}", {}),
            ("DELETE", f"/agents/{name}", None),
            ("GET", f"/agents/{name}/versions", None),
            ("POST", f"/agents/{name}/rollback", {"version": 1}),
        ):
            answer = await house.ask(method, path, body, principal=stranger, if_match="*")
            assert (answer.status, answer.json["code"]) == (unknown.status, unknown.json["code"])
    assert (await house.ask("GET", "/agents/next/draft", principal=stranger)).status == 404
    assert (await house.ask("GET", "/agents", principal=stranger)).json["total"] == 0
    assert (await house.ask("GET", "/drafts", principal=stranger)).json["total"] == 0
    assert (await house.ask("POST", "/agents", {"alias": "seo"}, principal=stranger)).status == 201
    assert (await house.ask("GET", "/agents/seo")).json["updated_by"] == "anna"


async def test_what_is_referred_to_cannot_be_deleted(house: ManagedPolicies) -> None:
    await house.made("contexts", "brand")
    await house.made("profiles", "base", contexts=["brand"])
    await house.made("agents", "seo", profile="base")
    kept = await house.ask("DELETE", "/contexts/brand")
    assert (kept.status, "profiles/base" in kept.json["detail"]) == (409, True)
    kept = await house.ask("DELETE", "/profiles/base")
    assert (kept.status, "agents/seo" in kept.json["detail"]) == (409, True)
    for path in ("/agents/seo", "/profiles/base", "/contexts/brand"):
        assert (await house.ask("DELETE", path)).status == 204
    assert (await house.ask("GET", "/contexts")).json["total"] == 1


async def test_an_object_that_a_file_takes_over_is_the_files(house: ManagedPolicies) -> None:
    await house.made("agents", "seo", name="Stored")
    house.write({**FILES, "agents": {"seo": {"name": "Filed"}}})
    assert await house.policies.reload()
    shown = (await house.ask("GET", "/agents/seo")).json
    assert (shown["name"], shown["source"]) == ("Filed", "file")
    assert (await house.ask("PUT", "/agents/seo", {})).status == 409


async def test_one_of_two_racing_updates_on_different_nodes_fails_cleanly(house: ManagedPolicies) -> None:
    tag = (await house.made("agents", "seo")).headers["etag"]
    commit = house.policies.commit

    async def overtaken(writes: Any, author: Any) -> Any:
        key = RecordKey("default", "agents", "seo")
        await house.records.commit([RecordWrite(key, b'{"name": "Other"}')], Author("bob", "update"))
        house.policies.commit = commit  # type: ignore[method-assign]
        return await commit(writes, author)

    house.policies.commit = overtaken  # type: ignore[method-assign,assignment]
    assert (await house.ask("PUT", "/agents/seo", {"name": "Mine"}, if_match=tag)).status == 412
    house.policies.commit = overtaken  # type: ignore[method-assign,assignment]
    assert (await house.ask("PUT", "/agents/seo", {"name": "Mine"})).status == 409
    assert (await house.ask("GET", "/agents/seo")).status == 200


async def test_changes_that_only_fit_apart_are_made_one_after_the_other(house: ManagedPolicies) -> None:
    """A context is deleted while an agent that uses it is made: one of the two has to be refused."""
    for _ in range(5):
        await house.made("contexts", "brand")
        gone, made = await asyncio.gather(
            house.ask("DELETE", "/contexts/brand"), house.ask("POST", "/agents", {"alias": "a", "contexts": ["brand"]})
        )
        assert (gone.status, made.status) in {(204, 422), (409, 201)}
        assert house.policies.error is None
        if made.status == 201:
            await house.ask("DELETE", "/agents/a")
            await house.ask("DELETE", "/contexts/brand")


async def test_what_another_node_has_changed_is_seen_before_a_change(house: ManagedPolicies) -> None:
    other = house.node()
    await other.start()
    tag = (await house.made("agents", "seo")).headers["etag"]
    await other.commit(
        [RecordWrite(RecordKey("default", "agents", "seo"), b'{"name": "Other"}')], Author("bob", "update")
    )
    assert (await house.ask("PUT", "/agents/seo", {"name": "Mine"}, if_match=tag)).status == 412


async def test_faults_that_were_there_before_do_not_stop_their_mending(house: ManagedPolicies) -> None:
    contexts: Any = FILES["contexts"]
    house.write({**FILES, "contexts": {**contexts, "old": {}}})
    await house.policies.reload()
    await house.made("agents", "one", contexts=["old"])
    await house.made("agents", "two", contexts=["old"])
    house.write(FILES)
    await house.policies.reload()
    assert house.policies.error is not None
    assert pointers(await house.ask("PUT", "/agents/one", {"contexts": ["old"]})) == {"/contexts/0"}
    mended = await house.ask("PUT", "/agents/one", {})
    assert (mended.status, mended.json["version"], mended.json["contexts"]) == (200, 2, [])
    assert (await house.ask("PUT", "/agents/one", {"name": "More"})).json["version"] == 3
    assert (await house.ask("DELETE", "/agents/two")).status == 204
    assert house.policies.error is None


async def test_a_store_that_fails_is_a_503_and_reads_go_on(house: ManagedPolicies) -> None:
    await house.made("agents", "seo")

    async def down(*_: Any) -> Any:
        raise StoreError("down")

    house.records.read_changes = down  # type: ignore[method-assign,assignment]
    answer = await house.ask("PUT", "/agents/seo", {"name": "x"})
    assert (answer.status, answer.json["code"], answer.headers["retry-after"]) == (503, "store_unavailable", "1")
    assert (await house.ask("GET", "/agents/seo")).status == 200


async def test_a_chat_key_may_do_nothing_here(house: ManagedPolicies) -> None:
    for route in get_api_routes(house.manage):
        path = route.path.replace("{", "").replace("}", "")
        answer = await house.ask(route.method, path, {}, principal=Principal("c", role=Role.CHAT))
        assert answer.status == (200 if route.path == "/openapi.json" else 403), route.path


async def test_the_audit_names_who_changed_what(house: ManagedPolicies) -> None:
    await house.made("agents", "seo", name="A")
    await house.ask("PUT", "/agents/seo", {"name": "B"}, principal=Principal("bob", role=Role.ADMIN))
    page, total = await house.records.list_versions(RecordKey("default", "agents", "seo"), 0, 10)
    assert (total, [(one.by, one.action) for one in page]) == (2, [("bob", "update"), (ANNA.name, "create")])
