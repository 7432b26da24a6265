"""What people may store or send to harm those who look at it: it stays text, and leads nowhere else."""

import time

import httpx
import pytest

from tests.console.conftest import call_api, run_gateway

HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
LINKS = "[one](javascript:document.title='owned') [two](data:text/html,x) [three](https://example.com/)"
PATHS = (
    "/",
    "/contexts",
    "/contexts/hostile",
    "/contexts/hostile/x",
    "/agents",
    "/agents/hostile",
    "/profiles",
    "/profiles/hostile",
    "/prompts",
    "/prompts/hostile",
    "/recipes",
    "/recipes/hostile",
    "/content?node=hostile",
    "/knowledge",
    "/knowledge/hostile",
    "/sessions",
    "/try",
    "/try?tab=saved",
    "/audit",
    "/receipts",
    "/bundles",
)


@pytest.fixture(scope="module")
def hostile_gateway(tmp_path_factory):
    """A gateway with something hostile in every text that it stores."""
    with run_gateway(tmp_path_factory.mktemp("hostile")) as address:

        def post(path, body, method="POST"):
            return call_api(address, method, path, body)

        texts = {"name": HOSTILE, "description": HOSTILE}
        resource = {"id": "x", "type": "text", **texts, "examples": [HOSTILE], "data": {"content": HOSTILE}}
        context = {"alias": "hostile", "name": HOSTILE, "resources": [resource]}
        post("contexts", context)
        post("contexts/hostile/draft", context | {"name": f"{HOSTILE} as a draft"}, "PUT")
        post("agents", {"alias": "hostile", **texts, "instructions": HOSTILE, "contexts": ["hostile"]})
        post("profiles", {"alias": "hostile", "name": HOSTILE})
        post("prompts", {"alias": "hostile", "name": HOSTILE, "template": HOSTILE})
        post("recipes", {"alias": "hostile", "description": HOSTILE, "layers": ["body"]})
        post("content", {"id": "hostile", "key": "hostile", "title": HOSTILE, "body": HOSTILE, "contexts": ["hostile"]})
        entity = {"id": "hostile", "type": "Term", "name": HOSTILE, "properties": {"about": HOSTILE}}
        post("knowledge/entities", entity)
        post("evaluation-cases", {"question": HOSTILE, "expect": [HOSTILE], "agent": "hostile"})
        asked = {"model": "demo", "messages": [{"role": "user", "content": HOSTILE}]}
        headers = {"x-context-agent": "hostile", "x-context-session": "%3Cimg src=x onerror=alert(1)%3E"}
        assert httpx.post(f"{address}/v1/chat/completions", json=asked, headers=headers, timeout=60).is_success
        yield address


def check_harmless(page, where):
    assert page.evaluate("document.querySelectorAll('img, script:not([src]), iframe, object').length") == 0, where
    assert page.title() != "owned", where


def test_hostile_texts_stay_texts_on_every_page(visit, hostile_gateway):
    one = visit(hostile_gateway)
    for path in PATHS:
        page = one.open(path)
        page.wait_for_load_state("networkidle")
        check_harmless(page, path)


def test_hostile_texts_stay_texts_in_dialogs_and_answers(visit, hostile_gateway):
    one = visit(hostile_gateway)
    page = one.open("/playground?agent=hostile")
    page.get_by_label("Message", exact=True).fill(HOSTILE)
    page.get_by_role("button", name="Send").click()
    page.get_by_role("button", name="View Context").click()
    page.get_by_role("dialog").get_by_role("heading", name="Rules").wait_for()
    check_harmless(page, "View Context")
    page.get_by_role("link", name="Open the receipt").click()
    for tab in ("What happened", "Exact request", "Texts", "Compare with now"):
        page.get_by_role("tab", name=tab).click()
        page.wait_for_load_state("networkidle")
        check_harmless(page, tab)
    page.keyboard.press("Control+k")
    page.keyboard.type("onerror")
    page.get_by_role("option", name="<img").first.wait_for()
    check_harmless(page, "search")
    page.keyboard.press("Escape")
    page = one.open("/try")
    page.get_by_role("button", name="Compare").click()
    page.locator("try-result").first.wait_for()
    page.wait_for_load_state("networkidle")
    check_harmless(page, "results")


RENDER = """async text => {
  const {renderMarkdown} = await import("/console/ui/markdown.js");
  const {LitElement} = await import("/console/vendor/lit.js");
  if (!customElements.get("shown-text")) customElements.define("shown-text", class extends LitElement {
    render() { return renderMarkdown(this.text); }
  });
  const shown = document.createElement("shown-text");
  shown.text = text;
  document.body.append(shown);
  await shown.updateComplete;
  const links = [...shown.shadowRoot.querySelectorAll("a")].map(link => link.getAttribute("href"));
  return [...links, shown.shadowRoot.querySelectorAll("img, script").length];
}"""


def render_markdown(page, text):
    """The addresses of the links, and how many images and scripts there are."""
    return page.evaluate(RENDER, text)


def test_links_in_answers_lead_to_web_pages_only(visit, hostile_gateway):
    page = visit(hostile_gateway).open("/playground")
    assert render_markdown(page, LINKS) == ["https://example.com/", 0]
    assert render_markdown(page, HOSTILE) == [0]


def test_no_text_takes_long_to_show(visit, hostile_gateway):
    """A quadratic pattern would take minutes for any of them."""
    page = visit(hostile_gateway).open("/playground")
    began = time.monotonic()
    for piece in ("[", "[a](https://", "*", "**", "`", "[a]("):
        render_markdown(page, piece * (150_000 // len(piece)))
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("path", ["//example.com", "/%2F%2Fexample.com", "/\\example.com", "/https://example.com"])
def test_no_address_of_the_console_leads_elsewhere(hostile_gateway, path):
    answer = httpx.get(f"{hostile_gateway}/console{path}", headers={"accept": "text/html"}, timeout=60)
    assert answer.status_code not in range(300, 400)
    assert "location" not in answer.headers
