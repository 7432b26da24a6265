"""Signing in: a key of every role, a session that outlives a reload, and its end."""

import pytest

from tests.console.conftest import call_api

PAGES = {
    "chat": {"Playground", "Sessions"},
    "editor": {
        "Overview",
        "Playground",
        "Contexts",
        "Content",
        "Agents",
        "Profiles",
        "Prompts",
        "Recipes",
        "Knowledge",
        "Try a change",
        "Sessions",
        "Analytics",
        "Import and export",
    },
}
PAGES["admin"] = PAGES["editor"] | {"Receipts", "Keys", "Audit"}


def sign_in(page, address, key, stay=False):
    page.goto(f"{address}/console/")
    page.get_by_label("Gateway key").fill(key)
    if stay:
        page.get_by_label("Stay signed in").check()
    page.get_by_role("button", name="Sign in").click()


@pytest.mark.parametrize("role", PAGES)
def test_a_key_sees_the_pages_of_its_role_and_no_other(visit, keyed_gateway, role):
    one = visit(keyed_gateway)
    one.expect_failures("401")
    sign_in(one.page, keyed_gateway, f"{role}-key-of-the-tests")
    one.page.locator(".nav-link").first.wait_for()
    shown = set(one.page.locator(".nav-link").all_inner_texts())
    assert shown == PAGES[role]


def test_the_form_stands_in_the_middle_of_the_window(visit, keyed_gateway):
    one = visit(keyed_gateway)
    one.expect_failures("401")
    one.page.goto(f"{keyed_gateway}/console/")
    box = one.page.locator(".sign-in form").bounding_box()
    assert box["x"] + box["width"] / 2 == pytest.approx(one.page.viewport_size["width"] / 2, abs=2)
    assert box["width"] > 300


def test_an_unknown_key_is_refused_in_words(visit, keyed_gateway):
    one = visit(keyed_gateway)
    one.expect_failures("401")
    sign_in(one.page, keyed_gateway, "nonsense")
    one.page.get_by_text("The gateway does not know this key.").wait_for()
    one.check_accessibility()


def test_a_key_in_memory_is_gone_after_a_reload(visit, keyed_gateway):
    one = visit(keyed_gateway)
    one.expect_failures("401")
    sign_in(one.page, keyed_gateway, "editor-key-of-the-tests")
    one.page.get_by_role("heading", name="Overview").wait_for()
    one.page.reload()
    one.page.get_by_label("Gateway key").wait_for()
    assert one.page.evaluate("JSON.stringify([localStorage, sessionStorage])").count("key-of-the-tests") == 0


def test_a_cookie_keeps_somebody_signed_in_and_may_change_things(visit, keyed_gateway):
    one = visit(keyed_gateway)
    one.expect_failures("401")
    sign_in(one.page, keyed_gateway, "admin-key-of-the-tests", stay=True)
    one.page.get_by_role("heading", name="Overview").wait_for()
    one.page.reload()
    one.page.get_by_role("heading", name="Overview").wait_for()
    assert one.page.evaluate("document.cookie") == ""
    one.page.get_by_role("link", name="Profiles").click()
    one.page.get_by_role("button", name="New profile").click()
    one.page.get_by_label("Name").fill("By cookie")
    one.page.get_by_role("button", name="Create").click()
    one.page.get_by_role("heading", name="By cookie").wait_for()
    assert call_api(keyed_gateway, "GET", "profiles/by-cookie", key="admin-key-of-the-tests")["updated_by"] == "admin"
    one.page.get_by_role("button", name="Sign out").click()
    one.page.get_by_label("Gateway key").wait_for()
    one.page.reload()
    one.page.get_by_label("Gateway key").wait_for()


def test_a_chat_key_sees_the_context_of_its_answer_without_receipts(visit, keyed_gateway):
    one = visit(keyed_gateway)
    one.expect_failures("401")
    sign_in(one.page, keyed_gateway, "chat-key-of-the-tests")
    one.page.get_by_label("Agent", exact=True).select_option("support")
    one.page.get_by_label("Message", exact=True).fill("How long does a refund take?")
    one.page.get_by_role("button", name="Send").click()
    one.page.get_by_role("button", name="View Context").click()
    one.page.get_by_role("dialog").get_by_text("Your role does not include receipts.").wait_for()


def test_a_key_is_made_and_shown_once(visit, keyed_gateway):
    one = visit(keyed_gateway)
    one.expect_failures("401")
    sign_in(one.page, keyed_gateway, "admin-key-of-the-tests")
    one.page.get_by_role("link", name="Keys").click()
    one.page.get_by_role("button", name="New key").click()
    one.page.get_by_role("dialog").get_by_label("Name").fill("website")
    one.page.get_by_role("button", name="Create").click()
    assert one.page.get_by_role("dialog").get_by_label("Key", exact=True).input_value().startswith("cgw_")
    one.page.get_by_role("button", name="Done").click()
    one.page.get_by_role("cell", name="website").wait_for()
