"""What collectors find competes like resources do."""

from msgspec.structs import fields

from gateway.domain.collector import FoundItem
from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.selection.found import make_found_resource


def test_the_resource_of_a_found_item_has_every_field_of_a_resource() -> None:
    item = FoundItem("n1", "node", "page", "A page", "What it says.", 0.5, "a reason", truncate="none", required=True)
    found = make_found_resource(item)
    plain = Resource(
        id="n1",
        context="",
        type="page",
        name="A page",
        mode=Mode.SEMANTIC,
        kind=ResourceKind.REFERENCE,
        description="",
        languages=(),
        conflict_key=None,
        priority=100,
        required=True,
        mandatory=False,
        readers=(),
        examples=(),
        truncate="none",
        data=item,
        text="What it says.",
    )
    names = [one.name for one in fields(Resource)]
    assert {name: getattr(found, name) for name in names} == {name: getattr(plain, name) for name in names}
