"""Every example of docs/CLIENTS.md is run against the example policies and the demo model."""

import asyncio
import io
import re
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from gateway.app import Gateway
from gateway.settings_loader import load_settings
from tests.support.gateway import Thread, serve_app

ROOT = Path(__file__).parents[2]
ADDRESS = "http://127.0.0.1:8080"
EXAMPLE = re.compile(r"^## (.+?)\n(?:(?!^## ).)*?^```(python|js)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = EXAMPLE.findall((ROOT / "docs/CLIENTS.md").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def address(thread: Thread) -> Iterator[str]:
    settings = load_settings(None, {}).model_copy(update={"policies": str(ROOT / "policies"), "store": "memory:"})
    app = thread.run(Gateway.open(settings))
    with serve_app(thread, app, settings) as port:
        yield f"http://127.0.0.1:{port}"
    thread.run(app.close())


def test_every_client_has_an_example() -> None:
    assert len(EXAMPLES) >= 15


@pytest.mark.parametrize(("language", "source"), [pytest.param(*one[1:], id=one[0]) for one in EXAMPLES])
def test_the_example_quotes_the_guide(address: str, language: str, source: str) -> None:
    assert "Pairing a Lumo lamp" in run(language, source.replace(ADDRESS, address))


def run(language: str, source: str) -> str:
    """What an example prints."""
    if language == "js":
        command = ["node", "--input-type=module", "--eval", source]
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr
    asyncio.set_event_loop(asyncio.new_event_loop())  # examples are programs: they expect the main thread's own
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(source, "docs/CLIENTS.md", "exec"), {"__name__": "__main__"})
    return printed.getvalue()
