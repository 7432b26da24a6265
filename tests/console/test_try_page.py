"""Try a change: saved cases, questions of one's own and the last requests, before a draft is published."""

import pytest

from tests.console.conftest import call_api, run_gateway

VOICE = "Write plainly."


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    """A gateway with a draft that says more and offers something new; its cases are its own."""
    with run_gateway(tmp_path_factory.mktemp("try")) as address:

        def body(content, *more):
            resources = [{"id": "voice", "type": "text", "name": "Voice", "data": {"content": content}}, *more]
            return {"alias": "house", "name": "House", "resources": resources}

        rule = {"id": "rule", "type": "text", "name": "New rule", "data": {"content": "Never compare prices."}}
        call_api(address, "POST", "contexts", body(VOICE))
        call_api(address, "POST", "agents", {"alias": "writer", "name": "Writer", "contexts": ["house"]})
        call_api(address, "PUT", "contexts/house/draft", body(f"{VOICE} Use short sentences.", rule))
        yield address


def save_case(page, question, *expected):
    page.get_by_role("button", name="New case").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Question").fill(question)
    for id in expected:
        dialog.get_by_label("Add a resource").fill(id)
        dialog.get_by_role("button", name="Add", exact=True).click()
    dialog.get_by_label("Ask as agent").select_option("writer")
    dialog.get_by_role("button", name="Save").click()
    page.get_by_role("link", name=question).wait_for()


def test_a_draft_is_tried_on_saved_cases_with_figures_before_and_after(visit, gateway):
    one = visit(gateway)
    page = one.open("/try?tab=saved")
    save_case(page, "May I compare prices?", "house/rule", "house/voice")
    page.get_by_role("tab", name="Compare").click()
    page.get_by_label("Questions of your own").fill("Hello?")
    page.get_by_label("Requests of the last receipts").fill("0")
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("1 of 2 would be told something else.").wait_for()
    figures = page.get_by_role("row", name="Found Of what")
    assert figures.get_by_role("cell").all_inner_texts()[1:] == ["50%", "100%", "+50%"]
    tokens = page.get_by_role("row", name="Context tokens").get_by_role("cell").all_inner_texts()
    assert int(tokens[2]) > int(tokens[1])
    page.get_by_text("wrong → right").click()
    page.locator("try-result", has_text="compare prices").get_by_text("New rule", exact=True).wait_for()
    page.locator(".diff-lines .added", has_text="Never compare prices.").wait_for()
    one.check_accessibility()


def test_a_question_becomes_a_case_by_keyboard(visit, gateway):
    page = visit(gateway).open("/try")
    page.get_by_label("Requests of the last receipts").fill("0")
    page.get_by_label("Questions of your own").focus()
    page.keyboard.type("What about tone?")
    page.get_by_role("button", name="Compare").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Save as case").focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_label("Add a resource").focus()
    page.keyboard.type("house/voice")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Save").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Saved.").wait_for()
    saved = {one["question"]: one["expect"] for one in call_api(gateway, "GET", "evaluation-cases")["items"]}
    assert saved["What about tone?"] == ["house/voice"]


def test_the_requests_of_receipts_are_tried(visit, gateway):
    one = visit(gateway)
    page = one.open("/playground?agent=writer")
    page.get_by_label("Message", exact=True).fill("Hello")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="View Context").wait_for()
    page = one.open("/try")
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("button", name="Compare").wait_for()  # it says "Comparing…" meanwhile
    row = page.locator("try-result", has_text="writer").filter(has_text="changed").last
    row.locator("summary").click()
    row.get_by_text("Never compare prices.").wait_for()


def test_a_saved_case_is_deleted(visit, gateway):
    call_api(gateway, "POST", "evaluation-cases", {"question": "Obsolete?", "expect": []})
    page = visit(gateway).open("/try?tab=saved")
    page.get_by_role("link", name="Obsolete?").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_text("Deleted.").wait_for()
    page.get_by_role("link", name="Obsolete?").wait_for(state="detached")
