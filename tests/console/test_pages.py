"""Every page opens, in light and dark and on a phone, without errors, strangers or faults of accessibility."""

import re

import httpx
import pytest

PAGES = {
    "/": "Overview",
    "/playground": "Playground",
    "/contexts": "Contexts",
    "/contexts/halden-voice": "Halden corporate voice",
    "/contexts/halden-voice/voice": "Halden brand voice",
    "/contexts/halden-voice/terms": "Product terms",
    "/contexts/halden-voice/style-guide": "Style guide",
    "/content": "Content",
    "/content?node=halden/blog": "Content",
    "/agents": "Agents",
    "/agents/support": "Lumo support",
    "/profiles": "Profiles",
    "/profiles/writing": "Writing",
    "/prompts": "Prompts",
    "/prompts/meta-description": "Meta description",
    "/recipes": "Recipes",
    "/recipes/brainstorm": "Brainstorm",
    "/knowledge": "Knowledge",
    "/try": "Try a change",
    "/receipts": "Receipts",
    "/sessions": "Sessions",
    "/analytics": "Analytics",
    "/keys": "Keys",
    "/audit": "Audit",
    "/bundles": "Import and export",
}
FIRST_VIEW_BYTES = 200_000


@pytest.mark.parametrize("path", PAGES)
def test_the_page_is_accessible_and_quiet(tour, path):
    if path == "/knowledge" and httpx.get(f"{tour.address}/api/v1/knowledge/entities", timeout=60).status_code == 404:
        pytest.skip("this gateway has no knowledge graph")
    page = tour.open(path)
    assert page.locator("main h1").first.inner_text() == PAGES[path]
    page.wait_for_load_state("networkidle")
    tour.check_accessibility()
    page.emulate_media(color_scheme="dark")
    tour.check_accessibility("color-contrast")
    page.emulate_media(color_scheme="light")
    tour.check_quiet()


@pytest.mark.parametrize(
    "path", ["/", "/contexts", "/contexts/halden-voice/terms", "/playground", "/content?node=halden"]
)
def test_the_page_fits_a_phone(visit, path):
    page = visit(viewport={"width": 360, "height": 740}).open(path)
    page.wait_for_load_state("networkidle")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_first_view_is_small(open_gateway):
    """What the contexts page loads, compressed."""
    with httpx.Client(base_url=open_gateway, timeout=60, headers={"accept-encoding": "gzip"}) as client:
        seen, waiting, size = set(), ["/console/"], 0
        while waiting:
            path = waiting.pop()
            if path in seen:
                continue
            seen.add(path)
            with client.stream("GET", path, headers={"accept": "*/*"}) as answer:
                size += sum(map(len, answer.iter_raw()))
            if path.endswith((".js", "/")):
                waiting += list_static_imports(path, client.get(path).text)
        assert "/console/pages/contexts/list.js" in {re.sub(r"/@[0-9a-f]+", "", path) for path in seen}
        assert size < FIRST_VIEW_BYTES


def list_static_imports(path: str, text: str) -> list[str]:
    if path.endswith("/"):
        return re.findall(r'(?:href|src)="(/console/[^"]+)"', text)
    base = httpx.URL(f"http://x{path}")
    found = re.findall(r'(?:from|import|import\()\s*"(\.[^"]+)"', text)
    first = [one for one in found if "/pages/" not in one or "contexts/list" in one]
    return [base.join(one).path for one in first]


def test_german_is_complete_on_every_page(visit):
    page = visit().open("/contexts")
    page.get_by_label("Language").select_option("de")
    page.get_by_role("heading", name="Kontexte").wait_for()
    assert page.locator("html").get_attribute("lang") == "de"
    assert page.get_by_role("button", name="Neuer Kontext").is_visible()


def test_the_theme_can_be_chosen_and_is_kept(visit):
    one = visit()
    page = one.open("/")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Dark theme").click()
    one.wait_until(f"getComputedStyle(document.body).backgroundColor !== '{before}'")
    page.reload()
    page.locator("main h1").wait_for()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_everything_is_found_with_the_keyboard(visit):
    page = visit().open("/")
    page.keyboard.press("Control+k")
    page.keyboard.type("consent")
    page.get_by_role("option", name="Personal data wording").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Personal data wording").wait_for()
