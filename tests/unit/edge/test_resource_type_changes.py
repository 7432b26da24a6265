"""A resource keeps the type that it was created with."""

from tests.support.managed_policies import ManagedPolicies, house

__all__ = ["house"]

TEXT = {"type": "text", "data": {"content": "A text"}}
TERMS = {"type": "glossary", "data": {"terms": {"a": "b"}}}


async def test_a_resource_keeps_its_type(house: ManagedPolicies) -> None:
    await house.made("contexts", "mine", resources={"q": TEXT})
    changed = await house.ask("PUT", "/contexts/mine/resources/q", TERMS)
    assert (changed.status, [one["pointer"] for one in changed.json["errors"]]) == (422, ["/type"])
    for resources, pointer in (({"q": TERMS}, "/resources/q/type"), ([{"id": "q", **TERMS}], "/resources/0/type")):
        whole = await house.ask("PUT", "/contexts/mine", {"resources": resources})
        assert (whole.status, [one["pointer"] for one in whole.json["errors"]]) == (422, [pointer])
    again = await house.ask("PUT", "/contexts/mine/resources/q", {**TEXT, "data": {"content": "Another text"}})
    assert again.status == 200
    replaced = await house.ask("PUT", "/contexts/mine", {"resources": {"p": TERMS}})
    assert replaced.status == 200
