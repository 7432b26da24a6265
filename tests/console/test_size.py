"""The console over a large store: few rows exist, few requests are sent, and the first view is small.

What is asserted are counts and bytes, which no busy machine changes; `scripts/console_figures` prints the times.
"""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.console.conftest import run_gateway
from tests.support.large_store import ADMIN_KEY, LargeStore

MOST_ROWS = 80  # of a list, in a window of 720 px
MOST_ELEMENTS = 3_000  # of a page
FIRST_VIEW_BYTES = 200_000
HUGE = 2_000  # resources of one context
LISTS = {"/contexts": 1_001, "/keys": 10_000, "/audit": 10_000}


@pytest.fixture(scope="module")
def large_gateway(tmp_path_factory):
    directory = tmp_path_factory.mktemp("large")
    with ThreadPoolExecutor(1) as other:  # Playwright has a loop in this thread
        other.submit(asyncio.run, LargeStore(huge=HUGE).fill(f"sqlite:///{directory}/data.db")).result()
    with run_gateway(directory, store=f"sqlite:///{directory}/data.db") as address:
        yield address


@pytest.fixture
def large(visit, large_gateway):
    one = visit(large_gateway, extra_http_headers={"authorization": f"Bearer {ADMIN_KEY}"})
    one.requests = []
    one.page.on("request", lambda sent: one.requests.append(sent.url.removeprefix(large_gateway)))
    return one


def count_elements(page):
    return page.evaluate("document.querySelectorAll('*').length")


COUNT = "Number(document.querySelector('.vlist')?.getAttribute('aria-rowcount') ?? 0)"
SETTLED = "!document.querySelector('.vlist-row .skeleton')"


@pytest.mark.parametrize("path", LISTS)
def test_a_list_of_thousands_is_scrolled_to_its_end_with_few_rows(large, path):
    page = large.open(path)
    page.locator(".vlist-row[data-index]").first.wait_for()
    del large.requests[:]
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    large.wait_until(f"{COUNT} > {LISTS[path]} && {SETTLED}")
    last = page.locator(".vlist-row[data-index]").last
    large.wait_until(f"[...document.querySelectorAll('.vlist-row')].at(-1).ariaRowIndex > {LISTS[path] - MOST_ROWS}")
    last.wait_for()
    assert page.locator(".vlist-row").count() < MOST_ROWS
    assert count_elements(page) < MOST_ELEMENTS
    assert len([one for one in large.requests if re.match(r"/api/v1/\w+\?", one)]) < 5


def test_receipts_are_paged_by_cursor_as_they_are_scrolled(large):
    page = large.open("/receipts")
    page.locator(".vlist-row[data-index]").first.wait_for()
    for _ in range(4):
        seen = page.evaluate(COUNT)
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        large.wait_until(f"{COUNT} > {seen} && {SETTLED}")
    assert page.evaluate(COUNT) > 800
    assert page.locator(".vlist-row").count() < MOST_ROWS
    assert count_elements(page) < MOST_ELEMENTS


def test_the_first_view_is_small_and_asks_for_little(large):
    """Everything that the list of 1,000 contexts needs, as it comes over the wire."""
    received = []
    session = large.page.context.new_cdp_session(large.page)
    session.send("Network.enable")
    session.on("Network.loadingFinished", lambda event: received.append(event["encodedDataLength"]))
    page = large.open("/contexts")
    page.locator(".vlist-row[data-index]").first.wait_for()
    page.wait_for_load_state("networkidle")
    assert sum(received) < FIRST_VIEW_BYTES
    calls = [one for one in large.requests if one.startswith("/api/")]
    assert len(calls) < 5, calls  # who this is, the rows, what uses them
    files = [one for one in large.requests if one.startswith("/console/")]
    assert len(files) < 32, files
    assert count_elements(page) < MOST_ELEMENTS


def test_a_tree_of_100000_nodes_opens_expands_and_is_searched(large):
    page = large.open("/content")
    first = page.get_by_role("treeitem", name="Node 000000")
    first.focus()
    page.keyboard.press("ArrowRight")
    page.get_by_role("treeitem", name="Node 000001").wait_for()
    del large.requests[:]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.get_by_role("treeitem", name="Node 000002").wait_for()
    assert len(large.requests) == 1  # the children of one node
    assert page.get_by_role("treeitem").count() < MOST_ROWS
    page.get_by_label("Search content").fill("Node 099998")
    page.get_by_role("treeitem", name="Node 099998").click()
    page.get_by_role("heading", name="Node 099998").wait_for()
    assert count_elements(page) < MOST_ELEMENTS


def test_a_context_of_thousands_of_resources_holds_the_rows_in_view(large):
    page = large.open("/contexts/huge")
    first = page.get_by_role("button", name="Move Text 0: arrow keys")
    first.wait_for()
    assert page.locator(".resource-row").count() < MOST_ROWS
    assert count_elements(page) < MOST_ELEMENTS
    first.focus()
    page.keyboard.press("End")
    page.get_by_text(f"Text 0 is now number {HUGE:,} of {HUGE:,}.").wait_for(state="attached")
    large.wait_until("document.activeElement.closest('.resource-row')?.dataset.id === 'text-0'")
    assert page.locator(".resource-row").last.get_attribute("aria-posinset") == str(HUGE)
    page.keyboard.press("ArrowUp")
    page.get_by_text(f"Text 0 is now number {HUGE - 1:,} of {HUGE:,}.").wait_for(state="attached")
    assert page.locator(".resource-row").count() < MOST_ROWS


def test_contexts_are_found_on_the_server_where_there_are_many(large):
    page = large.open("/agents")
    page.get_by_role("button", name="New agent").click()
    page.get_by_label("Name").fill("Finder")
    page.keyboard.press("Enter")
    field = page.get_by_role("searchbox", name="Add a context")
    field.fill("large 0099")
    page.get_by_role("button", name="Large 00991").wait_for()
    assert page.locator(".found li").count() == 8
    page.get_by_text("2 more match.").wait_for()
    page.get_by_role("button", name="Large 00991").click()
    field.fill("00999")
    page.get_by_role("button", name="Large 00999").wait_for()
    field.press("Enter")
    assert page.locator(".picked a").all_inner_texts() == ["Large 00991", "Large 00999"]
    large.check_accessibility()
