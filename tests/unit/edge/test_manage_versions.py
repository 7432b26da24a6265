"""Versions, comparison, rollback and drafts over the management API."""

from tests.support.managed_policies import TEXT, ManagedPolicies, house, pointers

__all__ = ["house"]


async def test_versions_are_listed_newest_first_and_read(house: ManagedPolicies) -> None:
    await house.made("agents", "seo", name="A")
    for name in ("B", "C"):
        await house.ask("PUT", "/agents/seo", {"name": name})
    listed = (await house.ask("GET", "/agents/seo/versions?take=2")).json
    assert (listed["total"], [one["version"] for one in listed["items"]]) == (3, [3, 2])
    assert (listed["items"][0]["action"], listed["items"][0]["by"]) == ("update", "anna")
    assert (await house.ask("GET", "/agents/seo/versions/1")).json["body"] == {"name": "A"}
    for number in ("4", "0", "x", "-1", "99999999999999999999"):
        assert (await house.ask("GET", f"/agents/seo/versions/{number}")).status == 404


async def test_two_versions_are_compared_field_by_field(house: ManagedPolicies) -> None:
    await house.made("contexts", "brand", name="A", resources={"a": TEXT, "b": TEXT, "c": TEXT})
    changed = {"type": "text", "data": {"content": "Be brief."}}
    await house.ask("PUT", "/contexts/brand", {"name": "B", "resources": {"c": TEXT, "a": changed, "d": TEXT}})
    compared = (await house.ask("GET", "/contexts/brand/versions/compare?from=1&to=2")).json
    assert (compared["from"], compared["to"]) == (1, 2)
    assert compared["changes"] == [
        {"pointer": "/name", "from": "A", "to": "B"},
        {"pointer": "/resources/a/data/content", "from": "Be kind.", "to": "Be brief."},
        {"pointer": "/resources/b", "from": TEXT, "to": None},
        {"pointer": "/resources/d", "from": None, "to": TEXT},
        {"pointer": "/resources/order", "from": ["a", "b", "c"], "to": ["c", "a", "d"]},
    ]
    assert (await house.ask("GET", "/contexts/brand/versions/compare?from=1&to=9")).status == 404
    wrong = await house.ask("GET", "/contexts/brand/versions/compare?from=0")
    assert {fault["parameter"] for fault in wrong.json["errors"]} == {"from", "to"}


async def test_a_rollback_makes_a_new_version(house: ManagedPolicies) -> None:
    await house.made("agents", "seo", name="A")
    tag = (await house.ask("PUT", "/agents/seo", {"name": "B"})).headers["etag"]
    back = await house.ask("POST", "/agents/seo/rollback", {"version": 1}, if_match=tag)
    assert (back.json["name"], back.json["version"]) == ("A", 3)
    assert (await house.ask("GET", "/agents/seo/versions")).json["items"][0]["action"] == "rollback"
    assert (await house.ask("POST", "/agents/seo/rollback", {"version": 2}, if_match=tag)).status == 412
    assert (await house.ask("POST", "/agents/seo/rollback", {"version": 9})).status == 404
    assert pointers(await house.ask("POST", "/agents/seo/rollback", {"version": "1"})) == {"/version"}


async def test_a_deleted_object_comes_back_with_its_id(house: ManagedPolicies) -> None:
    made = await house.made("agents", "seo", name="A")
    await house.ask("DELETE", "/agents/seo")
    listed = (await house.ask("GET", "/agents/seo/versions")).json
    assert [(one["version"], one["action"]) for one in listed["items"]] == [(2, "delete"), (1, "create")]
    assert (await house.ask("GET", "/agents/seo/versions/2")).json["body"] is None
    assert pointers(await house.ask("POST", "/agents/seo/rollback", {"version": 2})) == {"/version"}
    assert (await house.ask("POST", "/agents/seo/rollback", {"version": 1}, if_match="*")).status == 412
    back = await house.ask("POST", "/agents/seo/rollback", {"version": 1})
    assert (back.status, back.json["id"], back.json["version"]) == (200, made.json["id"], 3)


async def test_a_rollback_to_what_would_be_faulty_now_is_refused(house: ManagedPolicies) -> None:
    await house.made("contexts", "brand")
    await house.made("agents", "seo", contexts=["brand"])
    await house.ask("PUT", "/agents/seo", {})
    await house.ask("DELETE", "/contexts/brand")
    assert pointers(await house.ask("POST", "/agents/seo/rollback", {"version": 1})) == {"/contexts/0"}


async def test_files_have_no_versions(house: ManagedPolicies) -> None:
    assert (await house.ask("GET", "/profiles/writing/versions")).json == {"items": [], "total": 0}
    assert (await house.ask("GET", "/profiles/writing/versions/1")).status == 404
    assert (await house.ask("POST", "/profiles/writing/rollback", {"version": 1})).status == 409
    assert (await house.ask("PUT", "/profiles/writing/draft", {})).status == 409


async def test_a_draft_changes_nothing_until_it_is_published(house: ManagedPolicies) -> None:
    made = await house.made("contexts", "brand", name="A", resources={"a": TEXT})
    before = house.policies.get_snapshot("default").hash
    draft = await house.ask("PUT", "/contexts/brand/draft", {"name": "B"})
    assert (draft.json["name"], draft.json["draft"], len(draft.json["resources"])) == ("B", True, 1)
    assert (await house.ask("GET", "/contexts/brand/draft")).json == draft.json
    assert house.policies.get_snapshot("default").hash == before
    now = await house.ask("GET", "/contexts/brand", if_none_match=made.headers["etag"])
    assert (now.status, now.json["name"], now.json["draft"]) == (200, "A", True)
    assert house.services.objects.draft_changes("default") == {
        ("contexts", "brand"): {"name": "B", "resources": {"a": TEXT}}
    }
    published = await house.ask("POST", "/contexts/brand/publish", if_match=made.headers["etag"])
    assert (published.json["name"], published.json["version"], published.json["draft"]) == ("B", 2, False)
    assert (await house.ask("GET", "/contexts/brand/draft")).status == 404
    assert (await house.ask("GET", "/contexts/brand/versions")).json["items"][0]["action"] == "publish"
    assert house.policies.get_snapshot("default").contexts["brand"].name == "B"


async def test_a_draft_may_be_of_something_that_does_not_exist_yet(house: ManagedPolicies) -> None:
    await house.ask("PUT", "/agents/next/draft", {"name": "Next"})
    assert (await house.ask("GET", "/agents/next")).status == 404
    listed = (await house.ask("GET", "/drafts")).json
    assert [(one["kind"], one["alias"]) for one in listed["items"]] == [("agents", "next")]
    assert (await house.ask("POST", "/agents/next/publish", if_match="*")).status == 412
    assert (await house.ask("POST", "/agents/next/publish")).json["version"] == 1


async def test_a_draft_has_to_be_valid_and_can_be_thrown_away(house: ManagedPolicies) -> None:
    assert pointers(await house.ask("PUT", "/agents/next/draft", {"contexts": ["x"], "bad": 1})) == {
        "/contexts/0",
        "/bad",
    }
    assert pointers(await house.ask("PUT", "/agents/NEXT/draft", {})) == {"/alias"}
    tag = (await house.ask("PUT", "/agents/next/draft", {"name": "A"})).headers["etag"]
    await house.ask("PUT", "/agents/next/draft", {"name": "B"}, if_match=tag)
    assert (await house.ask("PUT", "/agents/next/draft", {"name": "C"}, if_match=tag)).status == 412
    assert (await house.ask("PUT", "/agents/next/draft", {"name": "C"}, if_none_match="*")).status == 412
    assert (await house.ask("PUT", "/agents/other/draft", {"name": "C"}, if_none_match="*")).status == 200
    assert (await house.ask("DELETE", "/agents/next/draft", if_match=tag)).status == 412
    assert (await house.ask("DELETE", "/agents/next/draft")).status == 204
    assert (await house.ask("DELETE", "/agents/next/draft")).status == 404


async def test_publishing_checks_again_and_needs_the_right_version(house: ManagedPolicies) -> None:
    await house.made("contexts", "brand")
    old = (await house.made("agents", "seo")).headers["etag"]
    await house.ask("PUT", "/agents/seo/draft", {"contexts": ["brand"]})
    await house.ask("PUT", "/agents/seo", {"name": "Changed"})
    assert (await house.ask("POST", "/agents/seo/publish", if_match=old)).status == 412
    await house.ask("DELETE", "/contexts/brand")
    assert pointers(await house.ask("POST", "/agents/seo/publish")) == {"/contexts/0"}
    assert (await house.ask("GET", "/agents/seo/draft")).status == 200


async def test_deleting_an_object_takes_its_draft_along(house: ManagedPolicies) -> None:
    await house.made("agents", "seo")
    await house.ask("PUT", "/agents/seo/draft", {"name": "B"})
    assert (await house.ask("DELETE", "/agents/seo")).status == 204
    assert (await house.ask("GET", "/drafts")).json["total"] == 0
