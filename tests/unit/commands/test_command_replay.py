"""`gateway diff`, `gateway receipts replay` and `gateway cache-report` as people use them."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from gateway.app import Gateway
from gateway.cli import main
from gateway.domain.exchange import Exchange
from gateway.domain.principal import ANONYMOUS
from gateway.ids import make_id
from gateway.settings_loader import load_settings

ROOT = Path(__file__).resolve().parents[3]
POLICIES: dict[str, Any] = {
    "contexts": {"house": {"resources": {"voice": {"type": "text", "data": {"content": "Write plainly."}}}}},
    "agents": {
        "editor": {"contexts": ["house"], "temperature": 0.2},
        "writer": {"contexts": ["house"], "temperature": 0.9},
    },
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A gateway with a lasting store that keeps texts."""
    write_policies(tmp_path / "policies", "Write plainly.")
    data = {
        "policies": str(tmp_path / "policies"),
        "store": f"sqlite:///{tmp_path / 'store.db'}",
        "upstreams": {"demo": {"kind": "demo"}},
        "routes": [{"model": "*", "upstream": "demo"}],
        "defaults": {"model": "demo"},
        "receipts": {"text": True},
        "semantic": {"enabled": False},
    }
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def write_policies(directory: Path, content: str) -> Path:
    directory.mkdir()
    policies = orjson.loads(orjson.dumps(POLICIES))
    policies["contexts"]["house"]["resources"]["voice"]["data"]["content"] = content
    (directory / "all.yaml").write_text(yaml.safe_dump(policies, sort_keys=False))
    return directory


def hold_talk(config: Path, *questions: str, session: str = "talk") -> list[str]:
    """The receipts of a conversation."""

    async def run() -> list[str]:
        gateway = await Gateway.open(load_settings(config))
        ids, messages = [], []
        for question in questions:
            messages.append({"role": "user", "content": question})
            headers = [(b"x-context-agent", b"editor"), (b"x-context-session", session.encode())]
            exchange = Exchange(make_id(), ANONYMOUS, gateway.policies.current, headers)
            prepared = await gateway.pipeline.prepare(exchange, orjson.dumps({"messages": messages}))
            await gateway.pipeline.converse(exchange, prepared)
            gateway.recorder.record_exchange(exchange, 200, 0.1)
            ids.append(exchange.id)
        await gateway.close()
        return ids

    return asyncio.run(run())


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_two_policy_directories_are_compared(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = write_policies(tmp_path / "other", "Write with care.")
    options = ("--config", str(config), "--agent", "editor", "--to-policies", str(other))
    shown = run_command(capsys, "diff", *options, "Hi")
    assert "~ house/voice: text" in shown or "~ house/voice: tokens" in shown
    assert "\n-Write plainly.\n+Write with care.\n" in shown
    # The marks around the blocks are the same on both sides.
    assert not any(line.startswith(("+--- Context", "---- Context")) for line in shown.split("\n"))
    assert orjson.loads(run_command(capsys, "diff", "--json", *options, "Hi"))["same"] is False
    assert run_command(capsys, "diff", "--config", str(config), "Hi") == "No difference.\n"


def test_two_requests_are_compared(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = run_command(
        capsys, "diff", "--config", str(config), "--agent", "editor", "--set", "agent=writer", "--set", "budget=0", "Hi"
    )
    assert "/temperature: 0.2 → 0.9" in shown
    assert "budget: 4000 → 0" in shown
    assert "- house/voice [always, " in shown


def test_a_receipt_is_replayed(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (receipt,) = hold_talk(config, "Is it raining?")
    shown = run_command(capsys, "receipts", "replay", receipt, "--config", str(config))
    assert shown.startswith(f"receipt {receipt}, the same policies\nsame context as then\n")
    assert "Is it raining?" in shown
    other = write_policies(tmp_path / "other", "Write with much more care than before.")
    changed = run_command(capsys, "receipts", "replay", receipt, "--config", str(config), "--policies", str(other))
    assert changed.startswith(f"receipt {receipt}, other policies\n~ house/voice: tokens ")
    diff = run_command(
        capsys, "diff", "--config", str(config), "--receipt", receipt, "--to-policies", str(other), "--set", "budget=0"
    )
    assert "- house/voice" in diff


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("diff",), "Give a question"),
        (("diff", "--from-as-of", "receipt", "Hi"), "needs a --receipt"),
        (("diff", "--budget", "much", "Hi"), "--budget must be"),
        (("diff", "--to-version", "contexts/house=1", "Hi"), "Some of these versions do not exist"),
        (("diff", "--to-draft", "contexts/house", "Hi"), "Some of these drafts do not exist"),
        (("diff", "--receipt", "0" * 26), "There is no such receipt"),
        (("receipts", "replay", "0" * 26), "There is no such receipt"),
        (("cache-report",), "Name either a file"),
        (("cache-report", "--session", "none"), "fewer than two requests"),
    ],
)
def test_what_cannot_be_done_is_said(
    config: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert main((*arguments, "--config", str(config))) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("option", [("--set", "agnt=x"), ("--to-version", "contexts/house"), ("--from-as-of", "never")])
def test_bad_options_are_refused(option: tuple[str, str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(("diff", *option, "Hi"))
    assert stopped.value.code == 2


def test_the_receipts_of_a_session_are_reported(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hold_talk(config, "One?", "Two?", "Three?")
    report = orjson.loads(run_command(capsys, "cache-report", "--config", str(config), "--session", "talk", "--json"))
    assert report["requests"] == 3
    assert all(one["context_tokens"] > 0 for one in report["variants"])  # the agent is that of the receipts
    assert {one["effective"] for one in report["variants"]} == {"system", "turn", "turn_user"}
    assert {one["share_of_reusable"] for one in report["variants"]} == {1.0}  # nothing is searched for


def test_the_example_conversation_keeps_what_could_be_cached(capsys: pytest.CaptureFixture[str]) -> None:
    talk, policies = ROOT / "examples/support-conversation.jsonl", ROOT / "policies"
    options = ("--policies", str(policies), "--agent", "support", "--json", str(talk))
    report = orjson.loads(run_command(capsys, "cache-report", *options))
    assert report["requests"] == 20
    shares = {(one["placement"], one["sticky"]): one["share_of_reusable"] for one in report["variants"]}
    assert shares["turn", True] >= 0.9
    assert shares["turn_user", True] >= 0.9
    assert shares["system", False] < 0.8 < shares["system", True]
    # What is kept is read again in every request: the report says so too.
    tokens = {(one["placement"], one["sticky"]): one["context_tokens"] for one in report["variants"]}
    assert tokens["turn", True] > tokens["turn", False]
