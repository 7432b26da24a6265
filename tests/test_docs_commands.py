"""Every command for a shell that the documents show about managing policies is run against a real gateway."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.gateway_processes import read_first_line

ROOT = Path(__file__).resolve().parents[1]
ADDRESS = "http://127.0.0.1:8080"
FENCE = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# An answer of 400 and above ends the block with a failure, and no proxy of the machine is asked.
STRICT = """set -eo pipefail
curl() { command curl -sS --fail-with-body --noproxy '*' "$@"; }
"""

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")


class Shell:
    """A shell in a directory with the example's configuration, next to a gateway that uses it."""

    def __init__(self, directory: Path, address: str) -> None:
        self.directory, self.address = directory, address

    def run(self, block: str) -> subprocess.CompletedProcess[str]:
        adapted = block.replace(ADDRESS, self.address).replace(".venv/bin/gateway", f"{sys.executable} -m gateway")
        command = ["bash", "-c", STRICT + adapted]
        return subprocess.run(
            command, cwd=self.directory, env=environment(), capture_output=True, text=True, timeout=120, check=False
        )


@contextmanager
def serving(directory: Path) -> Iterator[Shell]:
    shutil.copy(ROOT / "config.example.yaml", directory)
    shutil.copytree(ROOT / "policies", directory / "policies")
    command = [sys.executable, "-m", "gateway", "serve", "--config", "config.example.yaml", "--port", "0"]
    with subprocess.Popen(
        command, cwd=directory, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            line = read_first_line(process)
            assert line.startswith("Context Gateway listens on "), "the gateway did not start"
            yield Shell(directory, line.split()[-1])
        finally:
            process.terminate()
            process.communicate(timeout=120)


@pytest.fixture(scope="module")
def unchanged_shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """For commands that change nothing."""
    with serving(tmp_path_factory.mktemp("unchanged")) as shell:
        yield shell


def environment() -> dict[str, str]:
    """That of the machine without keys of providers: nothing may leave it."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return {**kept, "PYTHONPATH": str(ROOT)}


def blocks(path: str) -> list[str]:
    return FENCE.findall((ROOT / path).read_text(encoding="utf-8"))


def test_the_readme_manages_policies_as_it_says(tmp_path: Path) -> None:
    (block,) = [one for one in blocks("README.md") if "/api/v1" in one]
    with serving(tmp_path) as shell:
        done = shell.run(block)
    assert done.returncode == 0, done.stdout + done.stderr
    for told in ('"From [Dates]: Write dates as 5 March 2026."', '"to":"Write 2026-03-05."', "create agents/reporter"):
        assert told in done.stdout


def test_every_block_about_the_management_api_works_in_its_turn(tmp_path: Path) -> None:
    (tmp_path / "pairing.md").write_text("# Pairing\n\nHold the button.\n")
    operations = [one for one in blocks("docs/OPERATIONS.md") if "/api/v1" in one]
    every = [*operations, *blocks("docs/SESSIONS.md"), *blocks("docs/ANALYTICS.md"), *blocks("docs/CONTENT.md")]
    every += blocks("docs/MANAGEMENT.md")  # whose last block makes keys
    assert len(every) > 10
    with serving(tmp_path) as shell:
        for block in every:
            # The guard refuses this address before anybody dials it.
            done = shell.run(block.replace("https://status.example.com/", "https://127.0.0.1:9/"))
            assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"


def test_mcp_clients_read_contexts_as_the_page_says(unchanged_shell: Shell, tmp_path: Path) -> None:
    page = (ROOT / "docs/MCP.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    by_url, by_process = (
        json.loads(one) for one in re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    )
    (tmp_path / "key").write_text("unused")
    arguments = by_process["mcpServers"]["context-gateway"]["args"]
    assert by_url["mcpServers"]["context-gateway"]["url"] == f"{ADDRESS}/mcp"
    # The client of the page waits five seconds, which is too little on a busy machine.
    client, patient = "httpx2.AsyncClient(headers=HEADERS)", "httpx2.AsyncClient(headers=HEADERS, timeout=60)"
    assert client in program
    adapted = program.replace(ADDRESS, unchanged_shell.address).replace(client, patient)
    done = run_python(tmp_path, "-c", adapted)
    adapted_arguments = [one.replace(ADDRESS, unchanged_shell.address) for one in arguments]
    adapted_arguments[arguments.index("--key-file") + 1] = str(tmp_path / "key")
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    answered = run_python(tmp_path, "-m", "gateway", *adapted_arguments, given=json.dumps(hello) + "\n")
    assert "context://lumo-support/pairing - Pairing guide" in done.stdout, done.stderr
    assert "Write a reply to Ada" in done.stdout
    assert json.loads(answered.stdout)["result"]["serverInfo"]["name"] == "context-gateway", answered.stderr


HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def run_python(directory: Path, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=directory, env=environment(), input=given, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_command_that_is_refused_is_noticed(unchanged_shell: Shell) -> None:
    (block,) = [one for one in blocks("docs/MANAGEMENT.md") if "/contexts/legal/usage" in one]
    assert unchanged_shell.run(block).returncode == 0
    assert unchanged_shell.run(block.replace("/legal/", "/illegal/")).returncode != 0
