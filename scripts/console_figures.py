"""How long the console takes over a large store: first view, scrolling and the tree, in milliseconds.

Run: .venv/bin/python -m scripts.console_figures [--contexts 1000] [--nodes 100000]
"""

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from playwright.sync_api import Page, sync_playwright

from tests.support.gateway_processes import running_workers
from tests.support.large_store import ADMIN_KEY, LargeStore

LISTS = ("/contexts", "/keys", "/audit", "/receipts")
# The gaps between frames while a list is scrolled 200 times by almost a window.
SCROLL = """async () => {
  const gaps = [];
  let last = performance.now();
  for (let step = 0; step < 200; step += 1) {
    scrollBy(0, 600);
    await new Promise(requestAnimationFrame);
    gaps.push(performance.now() - last);
    last = performance.now();
  }
  gaps.sort((one, other) => one - other);
  return [gaps[100], gaps[190], gaps[199]];
}"""


def measure_lists(page: Page, address: str) -> None:
    for path in LISTS:
        page.goto(f"{address}/console{path}")
        page.locator(".vlist-row[data-index]").first.wait_for()
        middle, high, most = page.evaluate(SCROLL)
        rows = page.locator(".vlist-row").count()
        elements = page.evaluate("document.querySelectorAll('*').length")
        print(f"{path:10} gaps between frames: {middle:.0f}, p95 {high:.0f}, at most {most:.0f} ms;", end=" ")
        print(f"{rows} rows, {elements} elements")


def measure_first_view(page: Page, address: str) -> None:
    for name in ("cold", "warm", "warm"):
        began = time.perf_counter()
        page.goto(f"{address}/console/contexts")
        page.locator(".vlist-row[data-index]").first.wait_for()
        print(f"first view, {name}: {1000 * (time.perf_counter() - began):.0f} ms until rows are there")


def measure_tree(page: Page, address: str) -> None:
    page.goto(f"{address}/console/content")
    page.get_by_role("treeitem").first.wait_for()

    def clock(name: str, act: Any, wait: Any) -> None:
        began = time.perf_counter()
        act()
        wait()
        print(f"tree, {name}: {1000 * (time.perf_counter() - began):.0f} ms")

    page.get_by_role("treeitem", name="Node 000000").focus()
    opened = page.get_by_role("treeitem", name="Node 000001")
    clock("open a node", lambda: page.keyboard.press("ArrowRight"), opened.wait_for)
    found = page.get_by_role("treeitem", name="Node 09999")
    clock("search", lambda: page.get_by_label("Search content").fill("Node 09999"), found.first.wait_for)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", type=int, default=1_000)
    parser.add_argument("--nodes", type=int, default=100_000)
    options = parser.parse_args()
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    flags = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "policies").mkdir()
        store = f"sqlite:///{directory}/data.db"
        asyncio.run(LargeStore(contexts=options.contexts, nodes=options.nodes).fill(store))
        config: dict[str, Any] = {
            "listen": {"port": 0},
            "policies": "policies",
            "store": store,
            "semantic": {"enabled": False},
        }
        config |= {"upstreams": {"demo": {"kind": "demo"}}, "routes": [{"model": "*", "upstream": "demo"}]}
        (directory / "config.yaml").write_text(yaml.safe_dump(config))
        with sync_playwright() as started, running_workers(directory / "config.yaml", 1) as running:
            page = started.chromium.launch(executable_path=browser, args=flags).new_page(
                extra_http_headers={"authorization": f"Bearer {ADMIN_KEY}"}
            )
            measure_first_view(page, running.address)
            measure_lists(page, running.address)
            measure_tree(page, running.address)


if __name__ == "__main__":
    main()
