"""Contexts and their resources, as editors work on them: by mouse and by keyboard."""

import pytest


@pytest.fixture
def context(call, request):
    """A stored context with three texts; its alias."""
    alias = f"c-{request.node.name[:50].replace('_', '-').replace('[', '-').replace(']', '').replace(' ', '-')}"
    resources = [
        {"id": name, "type": "text", "name": name.title(), "data": {"content": f"About {name}."}}
        for name in ("one", "two", "three")
    ]
    call("POST", "contexts", {"alias": alias, "name": "Sample", "resources": resources})
    return alias


def list_ids(call, alias):
    return [one["id"] for one in call("GET", f"contexts/{alias}")["resources"]]


def save(page):
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("Saved. It is in use").wait_for()


def test_a_context_is_made_with_the_mouse(visit, call):
    one = visit()
    one.expect_failures("422")  # the preview of a term without a definition, on a machine that is slow enough to ask
    page = one.open("/contexts")
    page.get_by_role("button", name="New context").click()
    page.get_by_label("Name").fill("Größen & Maße")
    assert page.get_by_label("Alias").input_value() == "grossen-masse"
    page.get_by_role("button", name="Create").click()
    page.get_by_role("button", name="Add resource").click()
    page.get_by_role("button", name="Glossary").click()
    page.get_by_role("button", name="Add term").click()
    page.get_by_label("Term 1").fill("Lumen")
    page.get_by_label("Definition of Lumen").fill("Light that a lamp gives.")
    page.get_by_text("On demand", exact=True).click()
    save(page)
    (resource,) = call("GET", "contexts/grossen-masse")["resources"]
    assert resource["data"]["terms"] == [{"term": "Lumen", "definition": "Light that a lamp gives."}]
    assert resource["mode"] == "on_demand"


def test_a_context_is_made_with_the_keyboard(visit, call):
    page = visit().open("/contexts")
    page.get_by_role("button", name="New context").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Name").wait_for()
    page.keyboard.type("By keyboard")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Add resource").press("Enter")  # a dialog that closes may move the focus meanwhile
    page.get_by_role("button", name="Text Text or Markdown").press("Enter")
    page.get_by_label("Text", exact=True).focus()
    page.keyboard.type("Typed.")
    page.get_by_role("button", name="Save", exact=True).focus()
    page.keyboard.press("Enter")
    page.get_by_text("Saved. It is in use").wait_for()
    assert call("GET", "contexts/by-keyboard")["resources"][0]["data"] == {"content": "Typed."}


def test_resources_are_dragged_into_another_order(visit, call, context):
    page = visit().open(f"/contexts/{context}")
    page.locator('[data-id="three"]').drag_to(page.locator('[data-id="one"]'))
    save(page)
    assert list_ids(call, context) == ["three", "one", "two"]


def test_arrow_keys_change_the_order_and_the_change_is_announced(visit, call, context):
    page = visit().open(f"/contexts/{context}")
    page.get_by_role("button", name="Move One: arrow keys").focus()
    page.keyboard.press("ArrowDown")
    page.get_by_text("One is now number 2 of 3.").wait_for(state="attached")
    page.keyboard.press("ArrowDown")
    page.get_by_text("One is now number 3 of 3.").wait_for(state="attached")
    save(page)
    assert list_ids(call, context) == ["two", "three", "one"]


def test_two_editors_of_one_context_lose_nothing(visit, call, context):
    first, second = visit(), visit()
    second.expect_failures("412")
    for one, resource in ((first, "one"), (second, "two")):
        one.open(f"/contexts/{context}/{resource}").get_by_label("Text", exact=True).fill(f"{resource} by somebody")
    save(first.page)
    second.page.get_by_role("button", name="Save", exact=True).click()
    dialog = second.page.get_by_role("dialog")
    dialog.get_by_text("saved version 2 while you were editing").wait_for()
    dialog.get_by_text("one by somebody").wait_for()
    dialog.get_by_text("two by somebody").wait_for()
    dialog.get_by_role("button", name="Save the combination").click()
    second.page.get_by_text("Saved. It is in use").wait_for()
    texts = [one["data"]["content"] for one in call("GET", f"contexts/{context}")["resources"]]
    assert texts == ["one by somebody", "two by somebody", "About three."]


def test_a_conflict_about_the_same_text_is_decided_by_the_person(visit, call, context):
    first, second = visit(), visit()
    second.expect_failures("412")
    for one, text in ((first, "Theirs."), (second, "Mine.")):
        one.open(f"/contexts/{context}/one").get_by_label("Text", exact=True).fill(text)
    save(first.page)
    second.page.get_by_role("button", name="Save", exact=True).click()
    dialog = second.page.get_by_role("dialog")
    dialog.get_by_text("both changed it").wait_for()
    dialog.get_by_role("button", name="Keep editing").click()
    assert second.page.get_by_label("Text", exact=True).input_value() == "Mine."
    second.page.get_by_role("button", name="Save", exact=True).click()
    dialog.get_by_role("radio", name="Theirs").check()
    dialog.get_by_role("button", name="Save the combination").click()
    second.wait_until("!document.querySelector('dialog[open]')")
    assert call("GET", f"contexts/{context}")["resources"][0]["data"]["content"] == "Theirs."


@pytest.mark.parametrize("known", [False, True], ids=["made meanwhile", "changed meanwhile"])
def test_two_editors_of_one_draft_lose_nothing(visit, call, context, known):
    if known:
        call("PUT", f"contexts/{context}/draft", call("GET", f"contexts/{context}"))
    first, second = visit(), visit()
    second.expect_failures("412")
    for one, resource in ((first, "one"), (second, "two")):
        page = one.open(f"/contexts/{context}")
        if known:
            page.get_by_role("button", name="Open the draft").click()
            page.get_by_text("You are editing the draft.").wait_for()
        page.locator(f'[data-id="{resource}"] a').click()
        page.get_by_label("Text", exact=True).fill(f"{resource} by somebody")
    for one in (first, second):
        one.page.get_by_role("button", name="Save draft" if known else "Save as draft").click()
        if one is second:
            one.page.get_by_role("dialog").get_by_role("button", name="Save the combination").click()
        one.page.get_by_text("Draft saved.").wait_for()
    texts = [one["data"]["content"] for one in call("GET", f"contexts/{context}/draft")["resources"]]
    assert texts == ["one by somebody", "two by somebody", "About three."]


def test_a_draft_is_written_tried_and_published(visit, call, context):
    call(
        "PUT",
        f"contexts/{context}/draft",
        {"name": "Sample", "resources": [{"id": "one", "type": "text", "data": {"content": "As a draft."}}]},
    )
    page = visit().open(f"/contexts/{context}")
    page.get_by_role("button", name="Open the draft").click()
    page.get_by_text("You are editing the draft.").wait_for()
    page.get_by_role("link", name="Try it").click()
    page.get_by_label("Questions of your own").fill("What about one?")
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("would be told something else").wait_for()
    page.go_back()
    page.get_by_role("button", name="Open the draft").click()
    page.get_by_role("button", name="Publish").click()
    page.get_by_text("Published.").wait_for()
    assert call("GET", f"contexts/{context}")["resources"][0]["data"]["content"] == "As a draft."


def test_a_former_version_is_compared_and_restored(visit, call, context):
    body = call("GET", f"contexts/{context}")
    call("PUT", f"contexts/{context}", {**body, "name": "Renamed"})
    page = visit().open(f"/contexts/{context}")
    page.get_by_role("tab", name="Versions").click()
    page.get_by_role("button", name="What changed").click()
    page.locator(".diff-lines .added", has_text="Renamed").wait_for()
    page.get_by_role("button", name="Restore").click()
    page.get_by_role("dialog").get_by_role("button", name="Restore").click()
    page.get_by_text("Version 1 is in use again.").wait_for()
    assert call("GET", f"contexts/{context}")["name"] == "Sample"


def test_faults_are_shown_at_their_fields(visit, context):
    one = visit()
    one.expect_failures("422")
    page = one.open(f"/contexts/{context}/one")
    page.get_by_label("Text", exact=True).fill("")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("1 fault has to be fixed first.").wait_for()
    assert page.get_by_label("Text", exact=True).get_attribute("aria-invalid") == "true"


def test_unsaved_changes_are_not_left_by_accident(visit, context):
    page = visit().open(f"/contexts/{context}/one")
    page.get_by_label("Text", exact=True).fill("Not saved.")
    page.get_by_role("link", name="Sample").click()  # within the same context nothing is asked
    page.get_by_role("region", name="Unsaved changes").wait_for()
    page.get_by_role("link", name="Agents").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.locator('[data-id="one"] a').click()
    assert page.get_by_label("Text", exact=True).input_value() == "Not saved."


def test_an_object_of_a_file_is_read_only_and_names_its_file(visit):
    page = visit().open("/contexts/legal/claims")
    assert page.get_by_label("Text", exact=True).is_disabled()
    page.get_by_role("link", name="Legal").click()
    page.get_by_text("shared.yaml:").wait_for()


def test_the_keyboard_reaches_the_end_of_a_long_list(visit, call):
    names = {f"many-{number:04}": {"name": f"Many {number:04}", "resources": {}} for number in range(120)}
    call("POST", "import", {"contexts": names})
    one = visit()
    page = one.open("/contexts")
    page.locator('[data-index="0"] a').focus()
    page.keyboard.press("End")
    one.wait_until("document.activeElement.closest('[data-index]')?.dataset.index > 110")
    assert page.locator(".vlist-row").count() < 80
