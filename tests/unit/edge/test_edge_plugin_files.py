"""What resource types bring along for the console: only declared files, with the console's headers and versions."""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.routing import Route

from gateway.edge.console import SAFE_HEADERS, ConsoleEndpoint
from gateway.edge.console_files import ConsoleFiles
from gateway.edge.plugin_files import AssetAddresses, PluginFiles
from gateway.edge.site import CONSOLE_PATHS
from gateway.resources.base import ResourceType
from gateway.resources.console_assets import ConsoleAssets
from gateway.resources.registry import ResourceRegistry


class NoData(BaseModel):
    """Nothing."""


def make_type(assets: ConsoleAssets | None, name: str = "persona") -> ResourceType:
    class Sample(ResourceType):
        alias, name, description, data = "persona", "Persona", "", NoData
        console = assets

    Sample.alias = name
    return Sample()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own" / "parts").mkdir(parents=True)
    for name in ("editor.js", "parts/chips.js", "icon.svg", "inner.js", "page.html"):
        (tmp_path / "own" / name).write_text(f"/* {name} */" * 100)
    (tmp_path / "secret.js").write_text("outside")
    (tmp_path / "own" / "way-out.js").symlink_to(tmp_path / "secret.js")
    return tmp_path / "own"


@pytest.fixture
def plugins(folder: Path) -> PluginFiles:
    assets = ConsoleAssets(folder, ("editor.js", "parts/chips.js", "icon.svg"), "editor.js", "icon.svg")
    return PluginFiles(ResourceRegistry([make_type(assets), make_type(None, "plain")]))


@pytest.fixture
def browser(plugins: PluginFiles, tmp_path: Path) -> httpx.AsyncClient:
    (tmp_path / "index.html").write_text("the page")
    endpoint = ConsoleEndpoint(ConsoleFiles(tmp_path), plugins)
    app = Starlette(routes=[Route(path, endpoint) for path in CONSOLE_PATHS])
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers={"accept-encoding": "identity"})


async def test_a_declared_file_is_served_for_ever_under_its_version(
    browser: httpx.AsyncClient, plugins: PluginFiles, folder: Path
) -> None:
    address = plugins.locate("persona").editor
    assert address is not None
    answer = await browser.get(address)
    assert answer.content == (folder / "editor.js").read_bytes()
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert {name: answer.headers[name] for name in SAFE_HEADERS} == dict(SAFE_HEADERS)
    again = await browser.get(address, headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_modules_reach_each_other_by_relative_paths(browser: httpx.AsyncClient, plugins: PluginFiles) -> None:
    address = httpx.URL(f"http://localhost{plugins.locate('persona').editor}")
    assert (await browser.get(address.join("./parts/chips.js"))).status_code == 200


async def test_another_version_is_answered_but_not_kept(browser: httpx.AsyncClient) -> None:
    for path in ("/console/plugins/persona/@ffffffffffff/editor.js", "/console/plugins/persona/editor.js"):
        answer = await browser.get(path)
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")


def test_a_changed_file_is_another_version(folder: Path) -> None:
    def locate() -> AssetAddresses:
        return PluginFiles(ResourceRegistry([make_type(ConsoleAssets(folder, ("editor.js",), "editor.js"))])).locate(
            "persona"
        )

    before = locate()
    (folder / "editor.js").write_text("changed")
    assert locate() != before


@pytest.mark.parametrize(
    "path",
    [
        "persona/inner.js",  # in the folder, but not declared
        "persona/page.html",
        "persona/",
        "persona/@",
        "persona/@/secret.js",
        "persona/../secret.js",
        "persona/%2e%2e/secret.js",
        "persona/..%2fsecret.js",
        "persona//editor.js",
        "persona/parts",
        "plain/editor.js",
        "unknown/editor.js",
        "",
    ],
)
async def test_nothing_else_is_served(browser: httpx.AsyncClient, path: str) -> None:
    answer = await browser.get(f"/console/plugins/{path}", headers={"accept": "text/html"})
    assert (answer.status_code, answer.text) in ((404, "There is no such file.\n"), (200, "the page"))
    assert "outside" not in answer.text


def make_assets(folder: Path, *files: str, editor: str | None = None, icon: str | None = None) -> ConsoleAssets:
    return ConsoleAssets(folder, files, editor, icon)


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda folder: make_assets(folder, "../secret.js"), "not a plain name"),
        (lambda folder: make_assets(folder, "/etc/passwd"), "not a plain name"),
        (lambda folder: make_assets(folder, ".hidden.js"), "not a plain name"),
        (lambda folder: make_assets(folder, "way-out.js"), "leads out of its folder"),
        (lambda folder: make_assets(folder, "page.html"), "does not end in"),
        (lambda folder: make_assets(folder, "missing.js"), "is not a file"),
        (lambda folder: make_assets(folder, "icon.svg", editor="editor.js"), "one of its files"),
        (lambda folder: make_assets(folder, "icon.svg", editor="icon.svg"), "end in .js"),
        (lambda folder: make_assets(folder, "editor.js", icon="editor.js"), "end in .svg"),
    ],
)
def test_a_type_that_declares_something_else_stops_the_start(
    folder: Path, make: Callable[[Path], ConsoleAssets], fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        ResourceRegistry([make_type(make(folder))])


def test_an_alias_that_cannot_be_part_of_an_address_stops_the_start(folder: Path) -> None:
    with pytest.raises(ValueError, match="cannot be part of an address"):
        ResourceRegistry([make_type(make_assets(folder, "editor.js"), name="../x")])
