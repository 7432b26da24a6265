"""How long the console takes over a large store: first view, scrolling and the tree, by the browser's own clock.

Run: .venv/bin/python -m scripts.console_figures [--contexts 1000] [--nodes 100000] [--views 5]
It takes two minutes on a quiet machine, says on stderr what it is doing, and gives up on whatever takes half a minute.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.gateway_processes import GatewayProcess, running_workers
from tests.support.large_store import ADMIN_KEY, LargeStore

LISTS = ("/contexts", "/keys", "/audit", "/receipts")
MOST_MS = 30_000  # for anything that is waited for
ROW = ".vlist-row[data-index]"
TICKS = os.sysconf("SC_CLK_TCK")

# Notes when the first row is in the page, and when that has been painted.
WATCH_ROWS = """new MutationObserver((_, observer) => {
  if (!document.querySelector(".vlist-row[data-index]")) return;
  observer.disconnect();
  window.rowsAt = performance.now();
  requestAnimationFrame(() => setTimeout(() => { window.paintedAt = performance.now(); }));
}).observe(document, {childList: true, subtree: true});"""
# What came over the wire until then: requests, bytes, and when the last of each kind was there.
READ_VIEW = """() => {
  const entries = performance.getEntriesByType("resource").filter((one) => one.startTime < window.paintedAt);
  const api = entries.filter((one) => one.name.includes("/api/"));
  const files = entries.filter((one) => !one.name.includes("/api/"));
  const [page] = performance.getEntriesByType("navigation");
  const last = (list) => Math.max(0, ...list.map((one) => one.responseEnd));
  const bytes = [page, ...entries].reduce((sum, one) => sum + one.transferSize, 0);
  return {rows: window.rowsAt, painted: window.paintedAt, files: files.length, calls: api.length, bytes,
    page: page.responseEnd, loaded: last(files), answered: last(api)};
}"""
# The gaps between frames while a list is scrolled 200 times by almost a window; a frame that never comes counts.
SCROLL = """async () => {
  const gaps = [];
  let last = performance.now();
  for (let step = 0; step < 200; step += 1) {
    scrollBy(0, 600);
    await Promise.race([new Promise(requestAnimationFrame), new Promise((wake) => setTimeout(wake, 1000))]);
    gaps.push(performance.now() - last);
    last = performance.now();
  }
  gaps.sort((one, other) => one - other);
  return [gaps[100], gaps[190], gaps[199]];
}"""


def say(what: str) -> None:
    print(f"· {what}", file=sys.stderr, flush=True)


def read_cpu_ms(running: GatewayProcess) -> float:
    """CPU time that the gateway has used."""
    pids = {running.process.pid, *running.workers}
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return 1000 * sum(int(one[11]) + int(one[12]) for one in fields) / TICKS


def open_page(browser: Browser) -> Page:
    """A page with an empty cache."""
    context = browser.new_context(extra_http_headers={"authorization": f"Bearer {ADMIN_KEY}"})
    page = context.new_page()
    page.set_default_timeout(MOST_MS)
    page.add_init_script(WATCH_ROWS)
    return page


def view_contexts(page: Page, running: GatewayProcess) -> Mapping[str, float]:
    """One view of the list of contexts: milliseconds since its address was entered, and CPU time."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = read_cpu_ms(running)
    page.goto(f"{running.address}/console/contexts")
    page.locator(ROW).first.wait_for()
    page.wait_for_timeout(300)  # painted, and the gateway's CPU time counted
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    spent = {name: 1000 * metrics[f"{name}Duration"] for name in ("Script", "Layout", "RecalcStyle", "Task")}
    return {**page.evaluate(READ_VIEW), **spent, "gateway": read_cpu_ms(running) - before}


def print_view(name: str, views: list[Mapping[str, float]]) -> None:
    mean = {field: statistics.median(view[field] for view in views) for field in views[0]}
    worst = max(view["painted"] for view in views)
    print(
        f"first view, {name}: rows painted after {mean['painted']:.0f} ms (at most {worst:.0f}); the page itself after"
        f" {mean['page']:.0f}, its files {mean['loaded']:.0f}, the API's answers {mean['answered']:.0f} ms;"
        f" {mean['files']:.0f} files, {mean['calls']:.0f} calls, {mean['bytes'] / 1000:.0f} KB"
    )
    print(
        f"  CPU time: browser's main thread {mean['Task']:.0f} ms (script {mean['Script']:.0f}, style"
        f" {mean['RecalcStyle']:.0f}, layout {mean['Layout']:.0f}); gateway {mean['gateway']:.0f} ms",
        flush=True,
    )


def measure_first_views(browser: Browser, running: GatewayProcess, count: int) -> None:
    say("looking at the list of contexts for the first time")
    page = open_page(browser)
    print_view("gateway and browser cold", [view_contexts(page, running)])
    page.context.close()
    cold, warm = [], []
    for number in range(count):
        say(f"view {number + 1} of {count}")
        page = open_page(browser)
        cold.append(view_contexts(page, running))
        warm.append(view_contexts(page, running))
        page.context.close()
    print_view("empty cache", cold)
    print_view("files cached", warm)


def measure_lists(page: Page, address: str) -> None:
    for path in LISTS:
        say(f"scrolling {path}")
        page.goto(f"{address}/console{path}")
        page.locator(ROW).first.wait_for()
        middle, high, most = page.evaluate(SCROLL)
        rows = page.locator(".vlist-row").count()
        elements = page.evaluate("document.querySelectorAll('*').length")
        print(f"{path:10} gaps between frames: {middle:.0f}, p95 {high:.0f}, at most {most:.0f} ms;", end=" ")
        print(f"{rows} rows, {elements} elements", flush=True)


def measure_tree(page: Page, address: str, nodes: int) -> None:
    say("opening and searching the tree")
    page.goto(f"{address}/console/content")
    page.get_by_role("treeitem").first.wait_for()

    def clock(name: str, act: Any, wait: Any) -> None:
        began = page.evaluate("performance.now()")
        act()
        wait()
        print(f"tree, {name}: {page.evaluate('performance.now()') - began:.0f} ms", flush=True)

    page.get_by_role("treeitem", name="Node 000000").focus()
    opened = page.get_by_role("treeitem", name="Node 000001")
    clock("open a node", lambda: page.keyboard.press("ArrowRight"), opened.wait_for)
    last = f"Node {nodes - 1:06}"
    found = page.get_by_role("treeitem", name=last)
    clock("search", lambda: page.get_by_label("Search content").fill(last), found.first.wait_for)


@contextmanager
def run_gateway(store: LargeStore) -> Iterator[GatewayProcess]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "policies").mkdir()
        url = f"sqlite:///{directory}/data.db"
        say(f"storing {store.contexts} contexts, {store.nodes} nodes, {store.keys} keys, {store.receipts} receipts")
        asyncio.run(store.fill(url))
        config = {
            "listen": {"port": 0},
            "policies": "policies",
            "store": url,
            "semantic": {"enabled": False},
            "upstreams": {"demo": {"kind": "demo"}},
            "routes": [{"model": "*", "upstream": "demo"}],
        }
        (directory / "config.yaml").write_text(yaml.safe_dump(config))
        say("starting the gateway")
        with running_workers(directory / "config.yaml", 1) as running:
            yield running


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", type=int, default=1_000)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--views", type=int, default=5, help="how often the first view is measured")
    options = parser.parse_args()
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    flags = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    store = LargeStore(contexts=options.contexts, nodes=options.nodes)
    with run_gateway(store) as running, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=flags)
        measure_first_views(browser, running, options.views)
        page = open_page(browser)
        measure_lists(page, running.address)
        measure_tree(page, running.address, options.nodes)
        browser.close()


if __name__ == "__main__":
    main()
