"""Resource types of a plug-in: their icon, their editor, and the form that stands in when the editor fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.conftest import call_api, run_gateway

PLUGIN = Path(__file__).parent / "example_plugin"


@pytest.fixture(scope="module")
def plugin_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway beside which the example plug-in is installed."""
    packages = tmp_path_factory.mktemp("packages")
    (packages / "personas").symlink_to(PLUGIN / "personas")
    about = packages / "personas-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: personas\nVersion: 1.0\n")
    points = "[gateway.plugins]\nresource-persona = personas:Persona\nresource-riddle = personas:Riddle\n"
    (about / "entry_points.txt").write_text(points)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(packages))
        with run_gateway(tmp_path_factory.mktemp("plugins")) as address:
            yield address


@pytest.fixture
def persona(plugin_gateway, request):
    """A context with a resource of either type; its alias."""
    alias = f"p-{request.node.name[:40].replace('_', '-')}"
    resources = [
        {"id": kind, "type": kind, "name": kind.title(), "data": {"role": "engineer"}} for kind in ("persona", "riddle")
    ]
    call_api(plugin_gateway, "POST", "contexts", {"alias": alias, "name": "Personas", "resources": resources})
    return alias


def read_data(address, alias, place):
    return call_api(address, "GET", f"contexts/{alias}")["resources"][place]["data"]


def test_a_type_brings_its_editor_and_its_icon(visit, plugin_gateway, persona):
    one = visit(plugin_gateway)
    page = one.open(f"/contexts/{persona}/persona")
    page.get_by_label("Role").fill("buyer")
    page.get_by_label("Add a topic").fill("tolerances")
    page.keyboard.press("Enter")
    page.get_by_role("list", name="Topics").get_by_text("tolerances").wait_for()
    page.locator("pre", has_text="You speak to a buyer who knows: tolerances.").wait_for()
    assert "/console/plugins/persona/@" in page.locator(".own-icon").evaluate("icon => icon.style.maskImage")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("Saved. It is in use").wait_for()
    assert read_data(plugin_gateway, persona, 0) == {"role": "buyer", "knows": ["tolerances"]}


def test_faults_reach_the_editor(visit, plugin_gateway, persona):
    one = visit(plugin_gateway)
    one.expect_failures("422")
    page = one.open(f"/contexts/{persona}/persona")
    page.get_by_label("Role").wait_for()
    page.locator("plugin-editor").evaluate(
        "form => form.editor.dispatchEvent(new CustomEvent('change', {detail: {knows: []}}))"
    )
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator("plugin-editor p", has_text="required").wait_for()


def test_an_editor_that_fails_is_replaced_by_the_general_form(visit, plugin_gateway, persona):
    one = visit(plugin_gateway)
    page = one.open(f"/contexts/{persona}/riddle")
    page.get_by_text("The editor of this type could not be loaded.").wait_for()
    page.get_by_text("This module fails on purpose.").wait_for()
    page.get_by_label("Role").fill("sphinx")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("Saved. It is in use").wait_for()
    assert read_data(plugin_gateway, persona, 1) == {"role": "sphinx"}
    one.check_accessibility()


def test_what_a_plug_in_says_about_itself_stays_text(visit, plugin_gateway, persona):
    page = visit(plugin_gateway).open(f"/contexts/{persona}")
    page.get_by_role("button", name="Add resource").click()
    page.get_by_role("dialog").get_by_text("<img src=x").first.wait_for()
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    assert page.title() != "owned"
