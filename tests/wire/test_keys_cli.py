"""`gateway keys` on a store, beside gateways that serve from it."""

import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from gateway import cli
from tests.support.gateway_processes import QUESTION, GatewayProcess, configure, running_workers, spawn_gateway
from tests.support.limits import with_limits

BOTH_LIMITS = with_limits(loaded=6.0, quiet=2.0)  # seconds until a change is seen
PATIENCE = 10.0
START_SECONDS = 60
ENOUGH = 10  # answers in a row, each on a connection of its own, so that both workers are among them

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in this process; its exit code and what it prints."""

    def command(config: Path, *words: str) -> tuple[int, str]:
        capsys.readouterr()
        status = cli.main(["keys", words[0], "--config", str(config), *words[1:]])
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return command


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fixed = {"name": "fixed", "sha256": sha256(b"fixed").hexdigest(), "groups": ["press"]}
    return configure(tmp_path_factory.mktemp("keys"), auth={"keys": [fixed]})


@pytest.fixture(scope="module")
def gateway(config: Path) -> Iterator[GatewayProcess]:
    with running_workers(config, workers=2) as running:
        yield running


def get_status(gateway: GatewayProcess, key: str) -> int:
    url = f"{gateway.address}/v1/chat/completions"
    return httpx.post(url, json=QUESTION, headers={"authorization": f"Bearer {key}"}, timeout=20).status_code


def measure_seconds_until(gateway: GatewayProcess, key: str, status: int) -> float:
    """How long until every answer is `status`; the first of a row of them counts."""
    began, row, since = time.monotonic(), 0, 0.0
    while row < ENOUGH:
        now = time.monotonic()
        assert now - began < PATIENCE, f"no worker answers {status}"
        if get_status(gateway, key) == status:
            since, row = (now if row == 0 else since), row + 1
        else:
            row = 0
    return since - began


def create_key(run: Run, config: Path, *words: str) -> dict[str, Any]:
    status, printed = run(config, "create", "--json", *words)
    assert status == 0
    return dict(orjson.loads(printed))


@BOTH_LIMITS
def test_a_key_is_usable_and_useless_again_within_two_seconds(
    run: Run, config: Path, gateway: GatewayProcess, limits: float
) -> None:
    key = create_key(run, config)
    assert measure_seconds_until(gateway, key["key"], 200) <= limits
    assert run(config, "revoke", key["id"]) == (0, f"{key['id']} is revoked.\n")
    assert measure_seconds_until(gateway, key["key"], 401) <= limits


def test_the_limits_of_a_key_are_shared_by_the_workers_of_a_machine(
    run: Run, config: Path, gateway: GatewayProcess
) -> None:
    key = create_key(run, config, "--requests", "5")
    deadline = time.monotonic() + PATIENCE
    statuses: list[int] = []
    while 429 not in statuses:
        assert time.monotonic() < deadline
        statuses.append(get_status(gateway, key["key"]))
    assert statuses.count(200) == 5


def test_a_person_is_told_that_the_key_is_shown_only_once(run: Run, config: Path) -> None:
    status, printed = run(config, "create", "--name", "told", "--role", "editor")
    assert status == 0
    assert "cgw_" in printed
    assert "shown only once" in printed
    (secret,) = (line for line in printed.splitlines() if line.startswith("cgw_"))
    status, listed = run(config, "list")
    assert (status, "told" in listed, "fixed" in listed, secret in listed) == (0, True, True, False)


def test_everything_that_is_said_is_kept(run: Run, config: Path) -> None:
    words = ["--name", "whole", "--workspace", "acme", "--role", "admin", "--agents", "a, b", "--agent", "a"]
    words += ["--groups", "*,press", "--tier", "pro", "--requests", "7", "--tokens", "9", "--act-for-users"]
    key = create_key(run, config, *words, "--expires", "2099-01-31")
    expected = {
        "name": "whole",
        "workspace": "acme",
        "role": "admin",
        "agents": ["a", "b"],
        "agent": "a",
        "groups": ["*", "press"],
        "tier": "pro",
        "limits": {"requests": 7, "tokens": 9},
        "act_for_users": True,
        "expires_at": "2099-01-31T00:00:00Z",
        "source": "store",
        "updated_by": "operator",
    }
    assert {name: key[name] for name in expected} == expected
    status, printed = run(config, "list", "--json", "--workspace", "acme")
    assert (status, orjson.loads(printed)) == (0, [{name: value for name, value in key.items() if name != "key"}])


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["create", "--expires", "soon"], 2, "neither a duration"),
        (["create", "--expires", "2020-01-01"], 1, "must be in the future"),
        (["create", "--role", "owner"], 2, "invalid choice"),
        (["create", "--workspace", ""], 2, "printable"),
        (["create", "--requests", "0"], 1, "limits.requests: "),
        (["create", "--name", "fixed"], 1, "Another key is named 'fixed'"),
        (["revoke", "key-000000000000"], 1, "There is no key"),
        (["revoke"], 2, "ID"),
    ],
)
def test_what_cannot_be_done_is_said(
    run: Run, config: Path, capsys: pytest.CaptureFixture[str], words: list[str], status: int, said: str
) -> None:
    try:
        found, printed = run(config, *words)
    except SystemExit as end:
        found, printed = int(end.code or 0), capsys.readouterr().err
    assert found == status
    assert said in printed


def test_a_key_of_the_configuration_is_not_revoked_here(run: Run, config: Path) -> None:
    _, printed = run(config, "list", "--json")
    (fixed,) = (one for one in orjson.loads(printed) if one["source"] == "config")
    status, printed = run(config, "revoke", fixed["id"])
    assert (status, "auth.keys" in printed) == (1, True)


def test_a_store_that_forgets_is_refused(run: Run, tmp_path: Path) -> None:
    status, printed = run(configure(tmp_path, store="memory:"), "create")
    assert (status, "memory:" in printed) == (1, True)


def test_beyond_loopback_the_start_needs_a_key_in_the_store_or_the_configuration(run: Run, tmp_path: Path) -> None:
    config = configure(tmp_path, listen={"host": "0.0.0.0", "port": 0})
    refused = spawn_gateway(config)
    refused.communicate(timeout=START_SECONDS)
    assert refused.returncode == 1
    assert "listen.host: is reachable from other machines, but there is no key" in (tmp_path / "stderr").read_text()
    key = create_key(run, config)
    with running_workers(config, workers=1) as running:
        running.address = running.address.replace("0.0.0.0", "127.0.0.1")
        assert (get_status(running, key["key"]), get_status(running, "wrong")) == (200, 401)
        assert run(config, "revoke", key["id"])[0] == 0
        measure_seconds_until(running, key["key"], 401)
        assert httpx.post(f"{running.address}/v1/chat/completions", json=QUESTION, timeout=20).status_code == 401
