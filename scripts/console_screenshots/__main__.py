"""Pictures of the console's pages over the example policies and a little traffic."""

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import yaml
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tests.support.gateway_processes import ROOT, running_workers

SIZE: Final[ViewportSize] = {"width": 1280, "height": 820}
PHONE: Final[ViewportSize] = {"width": 360, "height": 760}
QUESTIONS: Final = (
    ("support", "My order arrived broken, what now?"),
    ("support", "How long does delivery to Austria take?"),
    ("support", "The lamp blinks red, how do I pair it?"),
    ("seo-writer", "How do we ask for newsletter consent?"),
)
PAGES: Final = {
    "overview": "/",
    "playground": "/playground?agent=support",
    "contexts": "/contexts",
    "context": "/contexts/brand",
    "resource": "/contexts/brand/personal-data",
    "glossary": "/contexts/brand/terms",
    "content": "/content?node=halden/blog",
    "agents": "/agents",
    "agent": "/agents/support",
    "profiles": "/profiles",
    "prompt": "/prompts/meta-description",
    "recipe": "/recipes/brainstorm",
    "knowledge": "/knowledge",
    "entity": "/knowledge/halden",
    "try": "/try",
    "cases": "/try?tab=saved",
    "receipts": "/receipts",
    "sessions": "/sessions",
    "analytics": "/analytics",
    "keys": "/keys",
    "audit": "/audit",
    "bundles": "/bundles",
}
IN_DOCS: Final = (("overview", "light"), ("resource", "light"), ("receipt", "light"))


@contextmanager
def run_gateway() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        shutil.copytree(ROOT / "policies", directory / "policies")
        config = {
            "listen": {"port": 0},
            "policies": "policies",
            "store": "sqlite:///data.db",
            "upstreams": {"demo": {"kind": "demo"}},
            "routes": [{"model": "*", "upstream": "demo"}],
            "defaults": {"model": "demo"},
            "receipts": {"text": True},
        }
        (directory / "config.yaml").write_text(yaml.safe_dump(config))
        with running_workers(directory / "config.yaml", 1) as running:
            yield running.address


def fill(address: str) -> str:
    """A context that can be edited, a draft, and some traffic; the id of the last receipt."""
    with httpx.Client(base_url=address, timeout=60) as client:
        voice = client.get("/api/v1/contexts/halden-voice").json()["resources"]
        legal = client.get("/api/v1/contexts/legal").json()["resources"]
        resources = [one for one in voice if one["type"] != "document"] + legal
        brand: dict[str, Any] = {"alias": "brand", "name": "Brand voice", "resources": resources}
        client.post("/api/v1/contexts", json=brand).raise_for_status()
        client.put("/api/v1/contexts/brand/draft", json={**brand, "resources": resources[:-1]}).raise_for_status()
        for question, expected in (("How do we ask for newsletter consent?", ["brand/personal-data"]), ("Hello!", [])):
            case = {"question": question, "expect": expected, "agent": "seo-writer"}
            client.post("/api/v1/evaluation-cases", json=case).raise_for_status()
        for id, name in (("halden", "Halden Instruments"), ("hp-200", "HP-200"), ("fl-30", "FL-30")):
            entity = {"id": id, "type": "Company" if id == "halden" else "Product", "name": name}
            client.post("/api/v1/knowledge/entities", json=entity).raise_for_status()
        for product in ("hp-200", "fl-30"):
            made = {"from": "halden", "type": "makes", "to": product}
            client.post("/api/v1/knowledge/relationships", json=made).raise_for_status()
        receipt = ""
        for number in range(3):
            for agent, question in QUESTIONS:
                body = {"model": "demo", "messages": [{"role": "user", "content": question}]}
                headers = {"x-context-agent": agent, "x-context-session": f"visit-{number}"}
                headers |= {"x-context-content": "halden/blog"} if agent == "seo-writer" else {}
                reply = client.post("/v1/chat/completions", json=body, headers=headers)
                receipt = reply.headers["x-context-receipt"]
        return receipt


def shoot(browser: Browser, address: str, pages: dict[str, str], directory: Path) -> None:
    for scheme in ("light", "dark"):
        page = browser.new_page(viewport=SIZE, color_scheme=scheme, reduced_motion="reduce", locale="en-GB")
        for name, path in pages.items():
            open_page(page, f"{address}/console{path}")
            if name == "try":
                compare(page)
            page.screenshot(path=directory / f"{name}-{scheme}.png")
        shoot_sign_in(page, address, directory / f"sign-in-{scheme}.png")
        page.close()
    phone = browser.new_page(viewport=PHONE, reduced_motion="reduce", locale="en-GB")
    for name, path in pages.items():
        open_page(phone, f"{address}/console{path}")
        phone.screenshot(path=directory / f"{name}-phone.png")
    shoot_sign_in(phone, address, directory / "sign-in-phone.png")
    phone.close()


def shoot_sign_in(page: Page, address: str, path: Path) -> None:
    """What somebody without a key sees; the gateway of the pictures has none."""
    page.route("**/api/v1/me", lambda call: call.fulfill(status=401, json={"detail": "A key is needed."}))
    open_page(page, f"{address}/console")
    page.screenshot(path=path)


def compare(page: Page) -> None:
    """The results of a trial, in place of the form alone."""
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("heading", name="Before and after").wait_for()
    page.get_by_role("heading", name="Before and after").evaluate("heading => heading.scrollIntoView()")


def open_page(page: Page, url: str) -> None:
    page.goto(url)
    page.locator("main h1, main .empty").first.wait_for()
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(400)  # previews wait for a pause in typing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=ROOT / "build" / "screenshots")
    parser.add_argument("--browser", required=True)
    parser.add_argument("--docs", action="store_true", help="renew the few that are part of the documentation")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    flags = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
    flags += ["--no-sandbox"] if os.geteuid() == 0 else []
    with run_gateway() as address, sync_playwright() as started:
        receipt = fill(address)
        browser = started.chromium.launch(executable_path=options.browser, args=flags)
        shoot(browser, address, {**PAGES, "receipt": f"/receipts/{receipt}"}, options.directory)
        browser.close()
    if options.docs:
        for name, scheme in IN_DOCS:
            shutil.copy(
                options.directory / f"{name}-{scheme}.png", ROOT / "docs" / "images" / f"console-{name}-{scheme}.png"
            )
    print(f"{len(list(options.directory.glob('*.png')))} pictures in {options.directory}")


if __name__ == "__main__":
    main()
