"""Contexts over the management API: resources, their order, the global default."""

from typing import Any

import pytest

from tests.support.managed_policies import FILES, TEXT, ManagedPolicies, house, pointers

__all__ = ["house"]


async def ids(house: ManagedPolicies, context: str = "brand") -> list[str]:
    return [one["id"] for one in (await house.ask("GET", f"/contexts/{context}/resources")).json["items"]]


@pytest.mark.parametrize("resources", [[{"id": "a", **TEXT}, {"alias": "b", **TEXT}], {"a": TEXT, "b": TEXT}])
async def test_resources_come_as_a_list_or_as_a_mapping(house: ManagedPolicies, resources: Any) -> None:
    made = (await house.made("contexts", "brand", resources=resources)).json
    assert [(one["id"], one["ref"], one["name"]) for one in made["resources"]] == [
        ("a", "brand/a", "A"),
        ("b", "brand/b", "B"),
    ]
    assert (made["resources"][0]["mode"], made["resources"][0]["data"]) == ("always", {"content": "Be kind."})
    assert list(house.policies.get_snapshot("default").resources) == ["house/voice", "brand/a", "brand/b"]


async def test_faults_point_into_the_list_that_was_sent(house: ManagedPolicies) -> None:
    bad = [
        {"id": "a", "type": "text", "data": {"content": 5}},
        {**TEXT},
        7,
        {"id": "a", **TEXT},
        {"id": "c", "type": "x"},
    ]
    answer = await house.ask("POST", "/contexts", {"alias": "brand", "resources": bad})
    assert pointers(answer) == {
        "/resources/0/data/content",
        "/resources/1/id",
        "/resources/2",
        "/resources/3/id",
        "/resources/4/type",
    }
    answer = await house.ask(
        "POST", "/contexts", {"alias": "brand", "resources": {"a/b": {"type": "text", "mode": "x"}}}
    )
    assert "/resources/a~1b/mode" in pointers(answer)
    assert pointers(await house.ask("POST", "/contexts", {"alias": "brand", "resources": "x"})) == {"/resources"}


async def test_an_update_without_resources_keeps_them(house: ManagedPolicies) -> None:
    await house.made("contexts", "brand", resources={"a": TEXT})
    kept = (await house.ask("PUT", "/contexts/brand", {"name": "Brand!"})).json
    assert (kept["name"], [one["id"] for one in kept["resources"]]) == ("Brand!", ["a"])
    assert (await house.ask("PUT", "/contexts/brand", {"resources": []})).json["resources"] == []


async def test_resources_are_added_read_replaced_and_deleted(house: ManagedPolicies) -> None:
    await house.made("contexts", "brand")
    added = await house.ask("POST", "/contexts/brand/resources", {"id": "tone", **TEXT, "mode": "on_demand"})
    assert (added.status, added.headers["location"]) == (201, "/api/v1/contexts/brand/resources/tone")
    assert (added.json["ref"], added.json["link"], added.json["kind"]) == ("brand/tone", None, None)
    assert (await house.ask("POST", "/contexts/brand/resources", {"id": "tone", **TEXT})).status == 409
    read = await house.ask("GET", "/contexts/brand/resources/tone")
    assert read.json == added.json
    assert (await house.ask("PUT", "/contexts/brand/resources/tone", read.json)).json == read.json
    replaced = await house.ask("PUT", "/contexts/brand/resources/tone", {**TEXT, "name": "Tone!"})
    assert (replaced.json["name"], replaced.json["mode"]) == ("Tone!", "always")
    assert (await house.ask("GET", "/contexts/brand")).json["version"] == 3
    assert (await house.ask("DELETE", "/contexts/brand/resources/tone")).status == 204
    assert (await house.ask("GET", "/contexts/brand/resources/tone")).status == 404
    assert (await house.ask("DELETE", "/contexts/brand/resources/tone")).status == 404
    saved = [(await house.ask("PUT", "/contexts/brand/resources/tone", TEXT)).status for _ in range(2)]
    assert saved == [201, 200], "created where it is absent"


async def test_faults_of_a_resource_point_into_it(house: ManagedPolicies) -> None:
    await house.made("contexts", "brand", resources={"a": TEXT})
    send = house.ask
    assert pointers(await send("POST", "/contexts/brand/resources", TEXT)) == {"/id"}
    assert pointers(await send("POST", "/contexts/brand/resources", [])) == {""}
    assert pointers(await send("POST", "/contexts/brand/resources", {"id": "order", **TEXT})) == {"/id"}
    assert pointers(await send("PUT", "/contexts/brand/resources/a", {"type": "text", "data": {}})) == {"/data/content"}
    assert pointers(await send("PUT", "/contexts/brand/resources/a", {"id": "b", **TEXT})) == {"/id"}
    assert pointers(await send("PUT", "/contexts/brand/resources/a", 5)) == {""}


async def test_the_resources_of_a_file_can_only_be_read(house: ManagedPolicies) -> None:
    assert (await house.ask("GET", "/contexts/house/resources/voice")).status == 200
    for method, path, body in (
        ("POST", "", {"id": "x", **TEXT}),
        ("PUT", "/voice", TEXT),
        ("DELETE", "/voice", None),
        ("PUT", "/order", ["voice"]),
    ):
        answer = await house.ask(method, f"/contexts/house/resources{path}", body)
        assert (answer.status, "the file all.yaml:2" in answer.json["detail"]) == (409, True)


async def test_resources_are_reordered(house: ManagedPolicies) -> None:
    await house.made("contexts", "brand", resources={"a": TEXT, "b": TEXT, "c": TEXT})
    moved = await house.ask("PUT", "/contexts/brand/resources/order", ["c", "a", "b"])
    assert ([one["id"] for one in moved.json["items"]], await ids(house)) == (["c", "a", "b"], ["c", "a", "b"])
    await house.ask("PUT", "/contexts/brand/resources/order", {"order": ["b", "c", "a"]})
    assert await ids(house) == ["b", "c", "a"]
    for wrong in (["a", "b"], ["a", "b", "c", "c"], ["a", "b", "x"], []):
        assert pointers(await house.ask("PUT", "/contexts/brand/resources/order", wrong)) == {"/order"}
    assert (await house.ask("PUT", "/contexts/brand/resources/order", {})).status == 422
    assert await ids(house) == ["b", "c", "a"]


async def test_a_stale_tag_of_the_context_stops_changes_of_its_resources(house: ManagedPolicies) -> None:
    old = (await house.made("contexts", "brand", resources={"a": TEXT, "b": TEXT})).headers["etag"]
    new = (await house.ask("POST", "/contexts/brand/resources", {"id": "c", **TEXT}, if_match=old)).headers["etag"]
    for method, path, body in (
        ("POST", "", {"id": "d", **TEXT}),
        ("PUT", "/a", TEXT),
        ("DELETE", "/a", None),
        ("PUT", "/order", ["b", "a", "c"]),
    ):
        assert (await house.ask(method, f"/contexts/brand/resources{path}", body, if_match=old)).status == 412
    assert (await house.ask("DELETE", "/contexts/brand/resources/a", if_match=new)).status == 204


async def test_the_global_default_moves_in_one_step(house: ManagedPolicies) -> None:
    await house.made("contexts", "one", default=True)
    await house.made("contexts", "two")
    assert (await house.ask("GET", "/contexts/global")).json["alias"] == "one"
    assert pointers(await house.ask("PUT", "/contexts/two", {"default": True})) == {"/default"}
    assert pointers(await house.ask("POST", "/contexts", {"alias": "three", "default": True})) == {"/default"}
    for method, alias in (("PUT", "two"), ("POST", "one"), ("POST", "one"), ("PUT", "two")):
        generation = house.policies.generation
        answer = await house.ask(method, f"/contexts/{alias}/set-global")
        assert (answer.json["default"], house.policies.get_snapshot("default").default) == (True, alias)
        assert house.policies.generation - generation <= 1
    assert (await house.ask("GET", "/contexts/one")).json["default"] is False


async def test_a_files_default_cannot_be_replaced(house: ManagedPolicies) -> None:
    house.write({**FILES, "contexts": {"house": {"default": True}}})
    await house.policies.reload()
    await house.made("contexts", "two")
    refused = await house.ask("PUT", "/contexts/two/set-global")
    assert (refused.status, "the file all.yaml:2" in refused.json["detail"]) == (409, True)
    assert (await house.ask("PUT", "/contexts/house/set-global")).status == 409
