"""A browser, gateways for it to open, and pages that watch for errors, strangers and faults of accessibility."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.gateway_processes import ROOT, running_workers
from tests.support.upstream import wait_for

SETUP = "The browser tests need Playwright and Chromium: scripts/test installs both."
FLAGS = (
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
ROLES = ("chat", "editor", "admin")
AXE_RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}

if "CI" in os.environ:
    import axe_playwright_python
    import playwright.sync_api as playwright_api
else:
    playwright_api = pytest.importorskip("playwright.sync_api", reason=SETUP)
    axe_playwright_python = pytest.importorskip("axe_playwright_python", reason=SETUP)

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text()
ANSWER_MS = 60_000  # a busy machine is slow, and a page that never answers is found all the same


def find_browser() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None and "CI" not in os.environ:
        pytest.skip(SETUP)
    assert found is not None, SETUP
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests that need the large store come first, so that one worker has all of them: to fill it takes long."""
    items.sort(key=lambda item: "large_gateway" not in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()
    with playwright_api.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=find_browser(), args=[*FLAGS, *sandbox])
        yield chromium
        chromium.close()


@contextmanager
def run_gateway(directory: Path, **changes: Any) -> Iterator[str]:
    """The example policies behind a demo model; yields the address."""
    shutil.copytree(ROOT / "policies", directory / "policies", dirs_exist_ok=True)
    data = {
        "listen": {"port": 0},
        "policies": "policies",
        "store": "sqlite:///data.db",
        "upstreams": {"demo": {"kind": "demo"}},
        "routes": [{"model": "*", "upstream": "demo"}],
        "defaults": {"model": "demo"},
        "semantic": {"enabled": False},
        "receipts": {"text": True},
        **changes,
    }
    (directory / "config.yaml").write_text(yaml.safe_dump(data))
    with running_workers(directory / "config.yaml", 1) as running:
        yield running.address


@pytest.fixture(scope="session")
def open_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway that never had a key."""
    with run_gateway(tmp_path_factory.mktemp("open")) as address:
        yield address


@pytest.fixture(scope="session")
def keyed_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway with a key of every role, such as `editor-key-of-the-tests`."""
    hashes = {role: sha256(f"{role}-key-of-the-tests".encode()).hexdigest() for role in ROLES}
    keys = [{"name": role, "role": role, "sha256": digest} for role, digest in hashes.items()]
    with run_gateway(tmp_path_factory.mktemp("keyed"), auth={"keys": keys}) as address:
        yield address


@dataclass
class Visit:
    """A page that somebody looks at, and what went wrong in it."""

    page: Any
    address: str
    faults: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()

    def open(self, path: str) -> Any:
        self.page.goto(f"{self.address}/console{path}")
        self.page.locator("main h1, main .empty").first.wait_for()
        return self.page

    def expect_failures(self, *parts: str) -> None:
        """What the browser may report: a refused call, which the page shows to the person."""
        self.expected += parts

    def check_quiet(self) -> None:
        """There was no error and no request to another host that nobody expected."""
        faults, self.faults = self.faults, []
        assert [fault for fault in faults if not any(part in fault for part in self.expected)] == []

    def wait_until(self, expression: str) -> None:
        """Until an expression is true; the page's own policy forbids what Playwright does for that."""
        wait_for(lambda: bool(self.page.evaluate(expression)), ANSWER_MS / 1000)

    def check_accessibility(self, *rules: str) -> None:
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE)
        options = {"runOnly": list(rules)} if rules else AXE_RULES
        found = self.page.evaluate("options => axe.run(document, options)", options)["violations"]
        lines = [
            f"{one['id']}: {node['html'][:160]} {node['failureSummary']}" for one in found for node in one["nodes"]
        ]
        assert lines == []


@pytest.fixture
def visit(browser: Any, request: pytest.FixtureRequest) -> Iterator[Callable[..., Visit]]:
    """Opens pages of a gateway; afterwards there was no error and no request to another host."""
    visits: list[Visit] = []
    with ExitStack() as closing:

        def start(address: str | None = None, **options: Any) -> Visit:
            one = begin_visit(browser, address or request.getfixturevalue("open_gateway"), closing, **options)
            visits.append(one)
            return one

        yield start
        for one in visits:
            one.check_quiet()


@pytest.fixture(scope="session")
def tour(browser: Any, open_gateway: str) -> Iterator[Visit]:
    """One visitor that goes through many pages, with what it has cached."""
    with ExitStack() as closing:
        yield begin_visit(browser, open_gateway, closing)


def begin_visit(browser: Any, address: str, closing: ExitStack, **options: Any) -> Visit:
    context = browser.new_context(locale="en-GB", reduced_motion="reduce", **options)
    closing.callback(context.close)
    page = context.new_page()
    page.set_default_timeout(ANSWER_MS)
    visit = Visit(page, address)
    page.on("console", lambda said: _note_fault(visit, said))
    page.on("pageerror", lambda error: visit.faults.append(str(error)))
    page.on("request", lambda sent: _note_stranger(visit, sent.url))
    return visit


def _note_fault(visit: Visit, said: Any) -> None:
    if said.type in ("error", "warning"):
        visit.faults.append(said.text)


def _note_stranger(visit: Visit, url: str) -> None:
    if not url.startswith((visit.address, "data:", "blob:")):
        visit.faults.append(f"a request to {url}")


@pytest.fixture
def call(open_gateway: str) -> Callable[..., Any]:
    """A call of the management API, as a script would make it."""
    return lambda method, path, body=None: call_api(open_gateway, method, path, body)


def call_api(address: str, method: str, path: str, body: Any = None, key: str = "") -> Any:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    answer = httpx.request(method, f"{address}/api/v1/{path}", json=body, headers=headers, timeout=60)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None
