"""What commands say to somebody who has not found the right options yet."""

import argparse
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from gateway.cli import main
from gateway.commands.common import parse_moment
from gateway.commands.keys import parse_expiry
from gateway.commands.serve import announce, format_example
from gateway.settings import Settings


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without a configuration."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def config(directory: Path) -> str:
    settings = {
        "store": "sqlite:///./gateway.db",
        "secret": "s",
        "upstreams": {"demo": {"kind": "demo"}},
        "routes": [{"model": "*", "upstream": "demo"}],
        "defaults": {"model": "demo"},
        "semantic": {"enabled": False},
    }
    (directory / "policies").mkdir()
    (directory / "my.yaml").write_text(yaml.safe_dump(settings))
    return "my.yaml"


def run_until_exit(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return int(caught.value.code or 0)


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_until_exit("--version") == 0
    name, number = capsys.readouterr().out.split()
    assert (name, number[0].isdigit()) == ("gateway", True)


def test_check_says_that_it_checked_the_demo_and_where(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "policies").mkdir()
    (directory / "policies" / "broken.yaml").write_text("contexts: [")
    assert main(["check"]) == 0  # the example policies: those beside us are nobody's without a configuration
    told = capsys.readouterr().err
    assert "no config.yaml here" in told
    assert "built-in demo" in told
    assert main(["check", "--json"]) == 0
    assert capsys.readouterr().err == ""


def test_check_says_that_there_are_no_policies(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--config", config]) == 0
    told = capsys.readouterr().err
    assert "there are no policies in " in told
    assert "built-in demo" not in told


@pytest.mark.parametrize("command", [["keys", "list"], ["receipts", "list"], ["stats"]])
def test_a_command_on_a_store_asks_for_the_configuration(
    command: list[str], directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 1
    assert "--config FILE" in capsys.readouterr().err


def test_serve_without_a_configuration_says_how_to_start(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve"]) == 1
    told = capsys.readouterr().err
    assert "--config" in told
    assert "gateway demo" in told


@pytest.mark.parametrize("command", ["import", "import-knowledge", "import-content"])
def test_a_missing_file_is_named_in_plain_words(command: str, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "missing", "--config", config]) == 1
    printed = capsys.readouterr()
    told = printed.out + printed.err
    assert "missing: No such file" in told or "missing:1: (file): there is no such file" in told
    assert "Errno" not in told


def test_a_wrong_time_names_every_form_that_is_accepted() -> None:
    for parse in (parse_moment, parse_expiry):
        assert parse("2030-01-31").year == 2030
        with pytest.raises(argparse.ArgumentTypeError, match=r"a date \(2030-01-31\)"):
            parse("soon")


def test_the_example_line_sends_a_key_where_one_is_configured() -> None:
    assert "$KEY" in format_example("http://127.0.0.1:1", "demo", needs_key=True)
    assert "$KEY" not in format_example("http://127.0.0.1:1", "demo")


@pytest.mark.parametrize(("keyed", "asks"), [(True, True), (False, False), (None, False)])
def test_the_greeting_asks_for_a_key_where_callers_need_one(
    keyed: bool | None, asks: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """The store may have keys although none is configured."""
    settings = Settings.model_validate({"upstreams": {"demo": {"kind": "demo"}}, "routes": []})
    announce(settings, "127.0.0.1", 8080, keyed)
    told = capsys.readouterr().out
    assert ("$KEY" in told) is asks
    assert ("No API keys" in told) is not asks
    assert ("unless the store has one" in told) is (keyed is None)


def test_a_key_is_limited_to_tools(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "create", "--tools", "shop/*, desk/lamp", "--config", config, "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out)["tools"] == ["desk/lamp", "shop/*"]
    assert main(["keys", "list", "--config", config]) == 0
    assert "desk/lamp,shop/*" in capsys.readouterr().out


def test_resolve_shows_what_another_workspace_gets(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    resource = {"type": "text", "data": {"content": "Write dates as 5 March 2026."}}
    Path("bundle.yaml").write_text(
        yaml.safe_dump({"contexts": {"newsroom": {"default": True, "resources": {"dates": resource}}}})
    )
    assert main(["import", "--config", config, "--workspace", "acme", "bundle.yaml"]) == 0
    capsys.readouterr()

    def list_injected(*options: str) -> list[Any]:
        assert main(["resolve", "--config", config, "--json", *options, "Hello"]) == 0
        return [one["id"] for one in orjson.loads(capsys.readouterr().out)["selection"]["injected"]]

    assert (list_injected("--workspace", "acme"), list_injected()) == (["newsroom/dates"], [])
