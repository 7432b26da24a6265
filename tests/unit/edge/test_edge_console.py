"""The console's files: types, versions, caching, compression, and what nobody gets."""

import gzip
import os
import re
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from gateway.edge.console import ConsoleEndpoint, accepts_gzip
from gateway.edge.console_files import FOLDER, ConsoleFiles
from gateway.edge.console_modules import STATIC, find_page_module, list_modules
from gateway.edge.site import CONSOLE_PATHS

PAGE = '<link href="/console/app.css"><script type="module" src="/console/app.js"></script>'
CODE = "export const n = 1;\n" * 100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "console" / "pages").mkdir(parents=True)
    files = {"index.html": PAGE, "app.js": CODE, "app.css": "a{}", "pages/list.js": CODE, "notes.md": "inner"}
    for name, text in files.items():
        (tmp_path / "console" / name).write_text(text)
    (tmp_path / "secret.js").write_text("outside")
    return tmp_path / "console"


@pytest.fixture
def browser(folder: Path) -> httpx.AsyncClient:
    app = Starlette(routes=[Route(path, ConsoleEndpoint(ConsoleFiles(folder))) for path in CONSOLE_PATHS])
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers={"accept-encoding": "identity"})


async def find_version(browser: httpx.AsyncClient) -> str:
    page = (await browser.get("/console")).text
    return page.partition("/@")[2].partition("/")[0]


async def test_the_page_names_the_version_of_its_files_and_is_asked_for_each_time(browser: httpx.AsyncClient) -> None:
    page = await browser.get("/console")
    version = await find_version(browser)
    assert len(version) == 12
    assert page.text == PAGE.replace("/console/", f"/console/@{version}/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("app.js", "text/javascript; charset=utf-8"), ("app.css", "text/css; charset=utf-8"), ("pages/list.js", None)],
)
async def test_a_file_of_the_version_is_kept_for_ever(browser: httpx.AsyncClient, name: str, kind: str | None) -> None:
    version = await find_version(browser)
    lasting, plain = [await browser.get(path) for path in (f"/console/@{version}/{name}", f"/console/{name}")]
    assert lasting.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert plain.headers["cache-control"] == "no-cache"
    assert lasting.content == plain.content
    assert kind in (None, lasting.headers["content-type"])


async def test_a_file_of_another_version_is_answered_but_not_kept(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/console/@ffffffffffff/app.js")  # another replica served the page
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")


async def test_a_changed_file_is_another_version(browser: httpx.AsyncClient, folder: Path) -> None:
    before = await find_version(browser)
    (folder / "app.js").write_text("changed")
    os.utime(folder / "app.js", (1, 1))
    after = await find_version(browser)
    assert after != before
    assert (await browser.get(f"/console/@{after}/app.js")).text == "changed"
    assert (await browser.get(f"/console/@{before}/app.js")).headers["cache-control"] == "no-cache"


async def test_an_unchanged_file_is_not_sent_again(browser: httpx.AsyncClient) -> None:
    first = await browser.get("/console/app.js")
    again = await browser.get("/console/app.js", headers={"if-none-match": first.headers["etag"]})
    packed = await browser.get(
        "/console/app.js", headers={"if-none-match": first.headers["etag"], "accept-encoding": "gzip"}
    )
    assert (again.status_code, again.content) == (304, b"")
    assert (packed.status_code, packed.headers["content-encoding"]) == (200, "gzip")  # another form, another tag


async def test_text_is_compressed_for_those_who_take_it(browser: httpx.AsyncClient) -> None:
    async with browser.stream("GET", "/console/app.js", headers={"accept-encoding": "br, gzip"}) as packed:
        raw = b"".join([piece async for piece in packed.aiter_raw()])
    assert gzip.decompress(raw).decode() == CODE
    assert len(raw) < len(CODE) / 5
    assert packed.headers["vary"] == "accept-encoding"
    plain = await browser.get("/console/app.js")
    assert "content-encoding" not in plain.headers
    assert plain.headers["vary"] == "accept-encoding"


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        (b"gzip", True),
        (b"", False),
        (b"br", False),
        (b"gzip;q=0", False),
        (b"gzip; q=0.0", False),
        (b"*", True),
        (b"GZIP;q=0.5, br", True),
        (b"identity, *;q=0", False),
    ],
)
def test_whether_a_client_takes_gzip(header: bytes, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted


async def test_an_address_of_a_page_gets_the_page_and_a_missing_file_is_missing(browser: httpx.AsyncClient) -> None:
    html = {"accept": "text/html,*/*;q=0.8"}
    assert "app.js" in (await browser.get("/console/contexts/house.v2", headers=html)).text
    assert (await browser.get("/console/contexts/house.v2")).status_code == 404
    version = await find_version(browser)
    assert (await browser.get(f"/console/@{version}/missing.js", headers=html)).status_code == 404


@pytest.mark.parametrize("path", ["notes.md", "../secret.js", "..%2fsecret.js", "pages", "/etc/passwd", "app.js/"])
async def test_nothing_else_of_the_machine_is_served(browser: httpx.AsyncClient, path: str) -> None:
    answer = await browser.get(f"/console/{path}")
    assert answer.status_code == 404 or answer.text == CODE


async def test_every_answer_forbids_frames_inline_scripts_and_guessing_types(browser: httpx.AsyncClient) -> None:
    for path in ("/console", "/console/app.js", "/console/missing.js"):
        headers = (await browser.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")


async def test_head_has_the_length_and_no_body(browser: httpx.AsyncClient) -> None:
    answer = await browser.head("/console/app.js")
    assert (answer.headers["content-length"], answer.content) == (str(len(CODE)), b"")


def test_nothing_is_read_before_somebody_asks(folder: Path) -> None:
    files = ConsoleFiles(folder)
    assert (files.digest, files.find_read("app.js", None)) == ("", None)


def test_the_page_of_the_package_is_there() -> None:
    file = ConsoleFiles().read("index.html")
    assert file is not None
    assert file.content_type.startswith("text/html")


ROUTES = """
export const ROUTES = [
  {path: "/", tag: "a-page", load: () => import("../pages/start.js"), role: "editor"},
  {path: "/things/:alias?", tag: "b-page", load: () => import("../pages/things.js")},
  {path: "/things/:alias/:part", tag: "c-page", load: () => import("../pages/part.js")},
];
"""


@pytest.fixture
def modules(folder: Path) -> Path:
    """A console whose pages share modules."""
    files = {
        "index.html": '<link rel="stylesheet" href="/console/vendor/a.css">\n'
        '<link rel="stylesheet" href="/console/styles/b.css">\n<script type="module" src="/console/main.js"></script>',
        "main.js": 'import {t} from "./lib/texts.js";\nawait import("./shell/app.js");',
        "lib/texts.js": 'const LANGUAGES = {de: () => import("../lib/german.js")};',
        "lib/german.js": "",
        "shell/app.js": 'import {ROUTES} from "./routes.js";\nimport "../lib/texts.js";',
        "shell/routes.js": ROUTES,
        "pages/start.js": 'import {\n  a,\n  b,\n} from "../lib/shared.js";',
        "pages/things.js": 'export {one} from "../lib/shared.js";\nimport "./missing.js";',
        "pages/part.js": "",
        "lib/shared.js": 'import "../pages/start.js"; // a circle',
        "vendor/a.css": "a{}",
        "styles/b.css": 'b{background:url("../b.svg")}',
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("address", "page"),
    [
        ("/console", ["lib/shared.js", "pages/start.js"]),
        ("/console/things", ["lib/shared.js", "pages/start.js", "pages/things.js"]),
        ("/console/things/one", ["lib/shared.js", "pages/start.js", "pages/things.js"]),
        ("/console/things/one/part", ["pages/part.js"]),
        ("/console/things/one/part/more", []),
        ("/console/nothing", []),
    ],
)
async def test_the_page_names_every_module_that_it_will_load(
    modules: Path, browser: httpx.AsyncClient, address: str, page: list[str]
) -> None:
    answer = await browser.get(address, headers={"accept": "text/html"})
    prefix = f'<link rel="modulepreload" href="/console/@{await find_version(browser)}/'
    linked = [part.partition('"')[0] for part in answer.text.split(prefix)[1:]]
    assert sorted(linked) == sorted(["main.js", "lib/texts.js", "shell/app.js", "shell/routes.js", *page])
    assert len({*linked}) == len(linked)
    for name in linked:
        assert (await browser.get(f"/console/{name}")).status_code == 200


async def test_the_style_sheets_are_one_file(modules: Path, browser: httpx.AsyncClient) -> None:
    page, version = (await browser.get("/console")).text, await find_version(browser)
    assert page.count('rel="stylesheet"') == 1
    sheet = await browser.get(f"/console/@{version}/styles/all.css")
    assert sheet.text == 'a{}\nb{background:url("../b.svg")}'
    assert sheet.headers["cache-control"].endswith("immutable")


def test_every_page_of_the_package_is_known_with_what_it_imports() -> None:
    """The patterns that find routes and imports find those of the real files."""

    def read(name: str) -> str | None:
        path = FOLDER / name
        return path.read_text() if path.is_file() else None

    source = (FOLDER / "shell/routes.js").read_text()
    for route in re.findall(r'path: "([^"]+)"', source):
        address = re.sub(r":\w+[?]?", "x", route)
        module = find_page_module(address, read)
        assert module is not None, route
        found = list_modules(module, read)
        assert {"main.js", "shell/app.js", "vendor/lit.js", module} <= {*found}
        for name in found:
            text = read(name) or ""
            assert len(re.findall(r"^import ", text, re.MULTILINE)) == len(STATIC.findall(text)), name
