"""The example of docs/TOOLS.md: a gateway that starts an MCP server, and the commands that the page shows."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.gateway_processes import read_first_line

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "TOOLS.md").read_text()
FENCES = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ADDRESS = "http://127.0.0.1:8080"

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")


def environment() -> dict[str, str]:
    """What a reader has who follows the page; where there is no .venv, the Python that runs the tests."""
    found = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    return found if (ROOT / ".venv/bin/python").exists() else found | {"PYTHON": sys.executable}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    start = FENCES[0].replace(".venv/bin/gateway", f"{sys.executable} -m gateway").replace("--port 8080", "--port 0")
    process = subprocess.Popen(start.split(), cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)
    try:
        line = read_first_line(process)
        assert line.startswith("Context Gateway listens on ")
        yield line.split()[-1]
    finally:
        process.terminate()
        process.communicate(timeout=30)


def run(block: str, address: str) -> list[Any]:
    """What each command of a block answers."""
    script = f"set -e\ncurl() {{ command curl -sS --fail-with-body --noproxy '*' \"$@\"; echo; }}\n{block}"
    done = subprocess.run(
        ["bash", "-c", script.replace(ADDRESS, address)], capture_output=True, text=True, timeout=60, check=True
    )
    return [orjson.loads(line) for line in done.stdout.splitlines() if line.strip()]


def test_the_commands_of_the_page_show_the_server_and_its_tools(address: str) -> None:
    end = time.monotonic() + 120  # a server that has not started within ten seconds is started again
    while True:
        listed, resolved = run(FENCES[1], address)
        (server,) = listed["items"]
        if server["state"] == "up" or time.monotonic() > end:
            break
        time.sleep(0.5)
    assert (server["name"], server["state"], server["used_by"]) == ("shop", "up", ["orders/shop"])
    assert [tool["name"] for tool in server["tools"]] == ["order_status", "cancel_order"]
    names = [tool["function"]["name"] for tool in resolved["request"]["tools"]]
    assert names == ["shop__order_status", "shop__cancel_order"]
    assert all(f"`{name}`" in PAGE for name in names)
