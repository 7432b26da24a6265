"""The main task of each other page, as a person would do it."""

import re

import pytest

QUESTION = "How long does a refund take?"


def ask(page, question=QUESTION):
    page.get_by_label("Message", exact=True).fill(question)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="View Context").last.wait_for()


def test_an_answer_streams_in_and_shows_its_context(visit):
    page = visit().open("/playground")
    page.get_by_label("Agent", exact=True).select_option("support")
    ask(page)
    page.get_by_role("button", name="View Context").click()
    dialog = page.get_by_role("dialog")
    for heading in ("Budget", "Rules", "References", "Tools"):
        dialog.get_by_role("heading", name=heading).wait_for()
    rules = dialog.locator(".vc-column", has=page.get_by_role("heading", name="Rules"))
    assert [one.inner_text() for one in rules.locator(".vc-name").all()] == [
        "Claims and comparisons",
        "Lumo voice",
        "Support rules",
    ]
    assert rules.locator(".mono").first.inner_text() == "010"
    dialog.locator(".mono", has_text="gateway.").first.wait_for()


def test_a_conversation_is_held_with_the_keyboard_alone(visit):
    page = visit().open("/playground?agent=support")
    page.get_by_label("Message", exact=True).focus()
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="View Context").focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    assert page.evaluate("document.activeElement.textContent").strip() == "View Context"


def test_a_receipt_tells_what_happened_and_what_would_be_sent_now(visit):
    page = visit().open("/playground?agent=support")
    ask(page)
    page.get_by_role("button", name="View Context").click()
    page.get_by_role("link", name="Open the receipt").click()
    page.get_by_role("tab", name="What happened").click()
    page.get_by_text("Turn 1: demo").wait_for()
    page.get_by_role("tab", name="Exact request").click()
    page.locator("pre", has_text='"messages"').wait_for()
    page.get_by_role("tab", name="Compare with now").click()
    page.get_by_text("Exactly the same request would be sent.").wait_for()


def test_receipts_are_filtered(visit):
    one = visit()
    ask(one.open("/playground?agent=support"))
    page = one.open("/receipts")
    page.get_by_label("Agent", exact=True).fill("nobody")
    page.get_by_text("No receipt matches.").wait_for()
    page.get_by_label("Agent", exact=True).fill("support")
    page.locator(".vlist-row").first.wait_for()


@pytest.mark.parametrize("hand", ["mouse", "keyboard"])
def test_an_agent_gets_contexts_in_an_order(visit, call, hand):
    alias = f"agent-{hand}"
    call("POST", "agents", {"alias": alias, "name": "Sample"})
    page = visit().open(f"/agents/{alias}")
    for name in ("legal", "seo"):
        page.get_by_label("Add a context").select_option(name)
    up = page.get_by_role("button", name="Move seo up")
    if hand == "mouse":
        up.click()
    else:
        up.focus()
        page.keyboard.press("Enter")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("Saved. It is in use").wait_for()
    assert call("GET", f"agents/{alias}")["contexts"] == ["seo", "legal"]
    page.get_by_role("tab", name="What it would be told").click()
    page.get_by_role("heading", name="Rules").wait_for()


def test_a_prompt_shows_its_variables(visit, call):
    call("POST", "prompts", {"alias": "letter", "name": "Letter", "template": "Dear {vars.name}, {input}"})
    page = visit().open("/prompts/letter")
    variables = page.locator("section", has=page.get_by_role("heading", name="Variables"))
    assert variables.locator("code").all_inner_texts() == ["{vars.name}", "{input}"]


def test_a_node_inherits_and_gets_contexts(visit, call):
    call("POST", "content", {"id": "launch", "key": "launch", "parent": "halden/blog", "title": "Launch"})
    page = visit().open("/content?node=launch")
    page.get_by_text("from halden", exact=True).first.wait_for()
    page.get_by_label("Add a context").select_option("seo")
    page.get_by_role("button", name="Save assignment").click()
    page.get_by_text("Saved. It is in use").wait_for()
    assert call("GET", "content/launch/context")["assigned"] == ["seo"]


def walk_to(page, name):
    for _ in range(20):  # other tests add nodes
        if name in page.evaluate("document.activeElement.textContent"):
            return
        page.keyboard.press("ArrowDown")
    raise AssertionError(f"{name} was not reached")


def test_the_tree_is_walked_with_the_keyboard(visit):
    page = visit().open("/content")
    site = page.get_by_role("treeitem", name="Halden Instruments")
    site.focus()
    if site.get_attribute("aria-expanded") == "false":
        page.keyboard.press("ArrowRight")
    page.get_by_role("treeitem", name="Engineering blog").wait_for()
    walk_to(page, "Engineering blog")
    page.keyboard.press("ArrowRight")
    page.get_by_role("treeitem", name="Why we weld").wait_for()
    walk_to(page, "Why we weld")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Why we weld our measuring cells").wait_for()


def test_a_session_keeps_what_is_added_and_removed(visit, call):
    call("PUT", "sessions/letter", {"settings": {}})
    page = visit().open("/sessions?id=letter")
    page.get_by_label("Id of a resource").fill("legal/personal-data")
    page.get_by_role("button", name="Add").click()
    page.get_by_text("added", exact=True).wait_for()
    page.get_by_label("Temperature").fill("0.2")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Saved.").wait_for()
    session = call("GET", "sessions/letter")
    assert session["settings"]["temperature"] == 0.2
    assert [one["id"] if isinstance(one, dict) else one for one in session["added"]] == ["legal/personal-data"]


def test_an_import_shows_what_it_would_change_first(visit, call):
    page = visit().open("/bundles")
    bundle = b"contexts:\n  imported:\n    name: Imported\n    resources: {a: {type: text, data: {content: Hello}}}\n"
    page.locator("#bundle-file").set_input_files({"name": "b.yaml", "mimeType": "application/yaml", "buffer": bundle})
    page.get_by_text("contexts/imported").wait_for()
    page.get_by_role("button", name=re.compile("Import 1 change")).click()
    page.get_by_text("Imported.").wait_for()
    assert call("GET", "contexts/imported")["name"] == "Imported"


def test_the_audit_log_shows_a_change(visit, call):
    call("POST", "profiles", {"alias": "audited", "name": "Audited"})
    page = visit().open("/audit")
    page.get_by_role("link", name="audited").click()
    page.get_by_role("dialog").get_by_text("create").wait_for()


def test_a_document_is_uploaded_and_its_text_shown(visit, call):
    call(
        "POST",
        "contexts",
        {
            "alias": "papers",
            "name": "Papers",
            "resources": [{"id": "guide", "type": "document", "data": {"content": "Later."}}],
        },
    )
    page = visit().open("/contexts/papers/guide")
    text = b"# House style\n\nWrite short sentences."
    page.locator("#document-file").set_input_files({"name": "style.md", "mimeType": "text/markdown", "buffer": text})
    page.get_by_text("style.md").wait_for()
    page.get_by_role("button", name="Show text").click()
    page.get_by_role("dialog").get_by_text("Write short sentences.").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("Saved. It is in use").wait_for()
    assert len(call("GET", "contexts/papers")["resources"][0]["data"]["sha256"]) == 64


def test_a_long_list_of_children_opens_page_by_page(visit, call):
    children = {f"n{number:04}": {"title": f"Node {number:04}"} for number in range(250)}
    call("POST", "import", {"content": {"aaa-big": {"title": "Big", "children": children}}})
    page = visit().open("/content")
    page.get_by_role("treeitem", name="Big").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_role("treeitem", name="Node 0000").wait_for()
    assert page.get_by_role("treeitem").count() < 80
    page.locator(".tree-box").evaluate("box => { box.scrollTop = 195 * 36; }")
    page.get_by_text("Show 50 more…").click()
    page.get_by_text("Show 50 more…").wait_for(state="detached")
    page.locator(".tree-box").evaluate("box => { box.scrollTop = 245 * 36; }")
    page.get_by_role("treeitem", name="Node 0249").wait_for()
