"""The main task of each page, once by mouse and once by keyboard alone."""

from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Hand:
    """Presses something, as people with or without a mouse do."""

    name: str

    def __call__(self, locator):
        if self.name == "mouse":
            locator.click()
        else:
            locator.focus()
            locator.page.keyboard.press("Enter")


@pytest.fixture(params=["mouse", "keyboard"])
def hand(request):
    return Hand(request.param)


def save(hand, page):
    hand(page.get_by_role("button", name="Save", exact=True))
    page.get_by_text("Saved. It is in use").wait_for()


@pytest.mark.parametrize(
    ("path", "button", "label", "value", "field"),
    [
        ("profiles", "New profile", "Model", "demo", "model"),
        ("prompts", "New prompt", "Template", "About {input}", "template"),
        ("recipes", "New recipe", "Description", "For chapters", "description"),
        ("agents", "New agent", "Instructions", "Be brief.", "instructions"),
    ],
)
def test_an_object_is_created_and_changed(visit, call, hand, path, button, label, value, field):
    page = visit().open(f"/{path}")
    hand(page.get_by_role("button", name=button))
    page.get_by_role("dialog").get_by_label("Name").fill(f"Made by {hand.name}")
    hand(page.get_by_role("button", name="Create"))
    page.get_by_label(label, exact=True).fill(value)
    save(hand, page)
    assert call("GET", f"{path}/made-by-{hand.name}")[field] == value


def test_an_entity_is_added_and_opened(visit, call, hand):
    page = visit().open("/knowledge")
    hand(page.get_by_role("button", name="New entity"))
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill(f"Thing of {hand.name}")
    dialog.get_by_label("Type").fill("Thing")
    hand(dialog.get_by_role("button", name="Save"))
    page.get_by_role("heading", name=f"Thing of {hand.name}").wait_for()
    assert call("GET", f"knowledge/entities/thing-of-{hand.name}")["type"] == "Thing"


def test_a_row_of_a_list_is_opened(visit, call, hand):
    call("POST", "profiles", {"alias": f"listed-{hand.name}", "name": f"Listed {hand.name}"})
    page = visit().open("/profiles")
    hand(page.get_by_role("link", name=f"Listed {hand.name}"))
    page.get_by_role("heading", name=f"Listed {hand.name}").wait_for()
    page = visit().open("/audit")
    hand(page.get_by_role("link", name=f"listed-{hand.name}"))
    page.get_by_role("dialog").get_by_text("create").wait_for()


def test_a_node_is_added_and_gets_a_context(visit, call, hand):
    page = visit().open("/content")
    hand(page.get_by_role("button", name="New root node"))
    page.get_by_role("dialog").get_by_label("Title").fill(f"Root by {hand.name}")
    hand(page.get_by_role("dialog").get_by_role("button", name="Create"))
    page.get_by_role("heading", name=f"Root by {hand.name}").wait_for()
    page.get_by_label("Add a context").select_option("seo")
    hand(page.get_by_role("button", name="Save assignment"))
    page.get_by_text("Saved. It is in use").wait_for()
    assert call("GET", f"content/root-by-{hand.name}/context")["assigned"] == ["seo"]


def make_context(call, alias, kind, data):
    resource = {"id": "one", "type": kind, "name": "One", "data": data}
    call("POST", "contexts", {"alias": alias, "name": "Sample", "resources": [resource]})
    return f"/contexts/{alias}/one"


def test_a_brand_voice_has_four_fields(visit, call, hand):
    alias = f"voice-{hand.name}"
    page = visit().open(make_context(call, alias, "brand-voice", {"tone": "Calm"}))
    wanted = {"tone": "Warm", "audience": "Engineers", "style": "Short", "avoid": "Hype"}
    for name, text in wanted.items():
        page.get_by_label(name.title(), exact=True).fill(text)
    save(hand, page)
    assert call("GET", f"contexts/{alias}")["resources"][0]["data"] == wanted


def test_a_term_is_removed_from_a_glossary(visit, call, hand):
    terms = [{"term": name, "definition": f"About {name}"} for name in ("Lumen", "Lux")]
    alias = f"terms-{hand.name}"
    page = visit().open(make_context(call, alias, "glossary", {"terms": terms}))
    hand(page.get_by_role("button", name="Remove Lumen"))
    save(hand, page)
    assert call("GET", f"contexts/{alias}")["resources"][0]["data"]["terms"] == terms[1:]


def test_a_link_is_refreshed_now(visit, call, hand):
    """The address is not on the public Internet: the page says what the gateway says about it."""
    page = visit().open(make_context(call, f"link-{hand.name}", "external-link", {"url": "http://127.0.0.1:9/x"}))
    hand(page.get_by_role("button", name="Refresh now"))
    page.get_by_text("not on the public Internet").first.wait_for()
