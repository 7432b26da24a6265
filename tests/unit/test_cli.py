"""The `gateway` command: exit codes, what it prints and where."""

import argparse
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from gateway.cli import COMMANDS, build_parser, main
from gateway.late_modules import LATE_MODULES
from gateway.semantic.model.files import MANIFEST, get_built_folder
from gateway.semantic.search.scoring import FEATURES

POLICIES: dict[str, Any] = {
    "contexts": {
        "house": {
            "resources": {
                "voice": {"type": "text", "name": "Voice", "data": {"content": "Write plainly."}},
                "style": {"type": "text", "mode": "on_demand", "data": {"content": "Use commas."}},
                "hr": {"type": "text", "readers": ["user:ann"], "data": {"content": "Salaries."}},
            }
        },
        "corporate": {"default": True, "resources": {"tone": {"type": "brand-voice", "data": {"tone": "Calm"}}}},
    },
    "agents": {"editor": {"contexts": ["house"]}},
    "content": {"site": {"title": "Café", "children": {"caf": {"contexts": ["corporate"]}}}},
}
CONFIG: dict[str, Any] = {
    "policies": "policies",
    "store": "memory:",
    "upstreams": {"demo": {"kind": "demo", "model": "*"}},
    "routes": [{"model": "*", "upstream": "demo"}],
    "defaults": {"model": "demo"},
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A working directory with a configuration and policies."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "all.yaml").write_text(yaml.safe_dump(POLICIES, sort_keys=False))
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(CONFIG))
    return "my.yaml"


def run_until_exit(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return int(caught.value.code or 0)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["check", "--nonsense"],
        ["resolve"],
        ["resolve", "one", "two"],
        ["serve", "--port", "many"],
        ["eval"],
        ["eval", "cases.txt", "--min-recall", "80"],
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_until_exit(*arguments) == 2
    assert "usage: gateway" in capsys.readouterr().err


def test_help_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_until_exit("--help") == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("serve", "demo", "check", "resolve", "index", "eval"))


def test_arguments_are_parsed_without_loading_what_the_commands_run() -> None:
    code = "import gateway.cli, sys; gateway.cli.build_parser(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"gateway.commands.serve", "gateway.commands.keys"} <= set(loaded)
    assert {"gateway.app", "gateway.settings", "gateway.control", "gateway.semantic", "uvloop"}.isdisjoint(loaded)


def test_only_the_command_that_runs_is_loaded() -> None:
    code = "import gateway.cli, sys; gateway.cli.build_parser('serve'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "gateway.commands.serve" in loaded
    assert {"gateway.commands.keys", "asyncio", "pydantic"}.isdisjoint(loaded)


def test_every_command_is_found_in_its_module() -> None:
    everything = build_parser()
    for command in COMMANDS:
        alone = build_parser(command)
        assert list_commands(alone)[command].format_help() == list_commands(everything)[command].format_help()
    assert list(list_commands(everything)) == list(COMMANDS)


def list_commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (commands,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return dict(commands.choices)


def test_a_gateway_starts_without_what_only_some_policies_need() -> None:
    """Servers of tools, links and documents to be parsed: a gateway without them does not load megabytes for them."""
    code = "import gateway.app, gateway.worker, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"gateway.app", "gateway.links.guard", "gateway.resources.document"} <= set(loaded)
    assert {"mcp", "httpx2", "mcp_types", "aiohttp", "yarl", "gateway.extraction.sandbox"}.isdisjoint(loaded)


def test_what_is_loaded_late_is_not_loaded_by_a_start() -> None:
    code = "import gateway.app, gateway.worker, sys; print(*sys.modules)"
    code += "; from gateway.late_modules import load_late_modules; load_late_modules(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = (set(line.split()) for line in done.stdout.splitlines())
    assert before.isdisjoint(LATE_MODULES)
    assert after.issuperset(LATE_MODULES)


def test_check_of_good_policies_exits_with_0(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--config", config]) == 0
    assert (
        capsys.readouterr().out == "ok: 2 contexts, 4 resources, 0 profiles, 1 agents, 0 prompts, 0 recipes, 2 nodes\n"
    )


def test_check_as_json(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--json", "--config", config]) == 0
    told = orjson.loads(capsys.readouterr().out)
    assert (told["ok"], told["faults"], told["contexts"], len(told["snapshot"])) == (True, [], 2, 12)


FAULTY = """contexts:
  house:
    resources:
      voice: {type: txt, data: {}}
agents:
  editor: {contexts: [hous]}
"""


def test_check_prints_every_fault_with_file_line_and_path(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("policies/all.yaml").write_text(FAULTY)
    assert main(["check", "--config", config]) == 1
    first, second = capsys.readouterr().out.splitlines()
    place, path, message = first.split(": ", 2)
    assert place.endswith("policies/all.yaml:4")
    assert (path, message) == (
        "contexts.house.resources.voice.type",
        "there is no resource type 'txt'; did you mean 'text'?",
    )
    assert ":6: agents.editor.contexts.0: there is no context 'hous'" in second


def test_check_prints_faults_as_json(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("policies/all.yaml").write_text(FAULTY)
    assert main(["check", "--json", "--config", config]) == 1
    told = orjson.loads(capsys.readouterr().out)
    assert (told["ok"], [fault["line"] for fault in told["faults"]]) == (False, [4, 6])
    assert sorted(told["faults"][0]) == ["file", "line", "message", "path"]


def test_faults_of_the_configuration_are_told_the_same_way(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(config).write_text(yaml.safe_dump(CONFIG | {"colour": "red"}))
    assert main(["check", "--config", config]) == 1
    assert capsys.readouterr().out.startswith("my.yaml:1: colour: ")


@pytest.mark.parametrize("command", [["check"], ["resolve", "Hi"], ["serve"], ["index"], ["eval", "cases.txt"]])
def test_a_configuration_that_is_not_there_is_a_fault(
    command: list[str], config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command[0], "--config", "nowhere.yaml", *command[1:]]) == 1
    said = capsys.readouterr()
    assert "nowhere.yaml" in said.out + said.err


def test_check_reads_the_configuration_that_serve_would(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(config).rename("config.yaml")
    assert main(["check"]) == 0
    assert "2 contexts" in capsys.readouterr().out


def test_check_without_any_configuration_checks_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check"]) == 0
    assert capsys.readouterr().out.startswith("ok: ")


def test_policies_can_be_given_by_themselves(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("other").mkdir()
    Path("other/all.yaml").write_text("contexts: {a: {}}")
    assert main(["check", "--policies", "other", "--config", config]) == 0
    assert "1 contexts" in capsys.readouterr().out


def resolve(config: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["resolve", "--config", config, "--json", *arguments]) == 0
    return dict(orjson.loads(capsys.readouterr().out))


def test_resolve_shows_the_request_that_would_go_out(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = resolve(config, capsys, "--agent", "editor", "--model", "m-1", "What now?")
    assert shown["model"] == "m-1"
    assert shown["request"]["messages"][-1] == {"role": "user", "content": "What now?"}
    assert [one["id"] for one in shown["selection"]["injected"]] == ["house/voice"]


def test_every_header_is_a_flag(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    texts = [("session", "s"), ("content", "site/caf/é"), ("task", "t"), ("user", "ann"), ("language", "de")]
    more = [("type", "chat"), ("budget", "90"), ("include", "house/hr"), ("exclude", "corporate/tone")]
    flags = [part for name, value in (*texts, *more, ("inject", "on")) for part in (f"--{name}", value)]
    shown = resolve(config, capsys, *flags, "Hi")
    assert [one["id"] for one in shown["selection"]["injected"]] == ["house/hr"]
    assert [one["id"] for one in shown["selection"]["dropped"]] == ["corporate/tone"]
    assert shown["tokens"]["budget"] == 90


def test_pins_are_flags_too_and_change_no_session(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(config).write_text(yaml.safe_dump(CONFIG | {"store": "sqlite:///./gateway.db"}))
    flags: tuple[list[str], ...] = (["--pin", "house/style"], ["--unpin", "corporate/tone"], [])
    shown = [resolve(config, capsys, "--session", "s", *given, "Hi") for given in flags]
    injected = [[item["id"] for item in one["selection"]["injected"]] for one in shown]
    assert injected == [["corporate/tone", "house/style"], [], ["corporate/tone"]]


def test_resolve_for_a_person(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resolve", "--config", config, "--agent", "editor", "Hi"]) == 0
    out = capsys.readouterr().out
    assert "house/voice [always, " in out
    assert "Outgoing request:" in out


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--agent", "editr"], "There is no agent 'editr'. Did you mean 'editor'?"),
        (["--budget", "lots"], "x-context-budget must be a non-negative integer"),
        (["--profile", "x"], "There is no profile 'x'."),
        (["--pin", "house/style"], "x-context-pin changes the session"),
    ],
)
def test_what_a_request_would_be_refused_for_exits_with_1(
    config: str, capsys: pytest.CaptureFixture[str], flags: list[str], told: str
) -> None:
    assert main(["resolve", "--config", config, *flags, "Hi"]) == 1
    assert f"gateway: {told}" in capsys.readouterr().err


def test_serve_refuses_to_start_with_faulty_policies(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("policies/all.yaml").write_text(FAULTY)
    assert main(["serve", "--config", config, "--port", "0"]) == 1
    assert "all.yaml:4: contexts.house.resources.voice.type" in capsys.readouterr().err


def test_serve_refuses_a_public_address_without_keys(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--config", config, "--host", "0.0.0.0", "--port", "0"]) == 1
    assert "listen.host" in capsys.readouterr().err


def test_serve_leaves_the_logging_of_the_process_as_it_was(config: str) -> None:
    handlers, level = logging.root.handlers[:], logging.root.level
    assert main(["serve", "--config", config, "--host", "0.0.0.0", "--port", "0"]) == 1
    assert (logging.root.handlers, logging.root.level) == (handlers, level)


SEARCHED: dict[str, Any] = {
    "contexts": {
        "help": {
            "default": True,
            "resources": {
                "delivery": {
                    "type": "text",
                    "mode": "semantic",
                    "name": "Delivery times",
                    "data": {"content": "Parcels take two days in Germany and four days in Austria."},
                },
                "privacy": {
                    "type": "text",
                    "mode": "semantic",
                    "name": "Privacy",
                    "data": {"content": "Ask for consent before a newsletter is sent."},
                },
            },
        }
    },
    "agents": {"mute": {"inject": False, "contexts": ["help"]}},
}
CASES = """cases:
  - {question: How long do parcels take to Austria?, expect: [help/delivery]}
  - {question: And to Germany?, expect: [help/delivery], earlier: [How long do parcels take to Austria?]}
  - {question: Do we need consent for the newsletter?, expect: [help/privacy]}
  - {question: Who painted the Mona Lisa?, expect: []}
"""
needs_model = pytest.mark.skipif(
    not (get_built_folder() / MANIFEST).is_file(), reason="the embedding model is not there: run scripts/model"
)


@pytest.fixture
def searched(config: str) -> str:
    """The same with resources for semantic search, a store that lasts, and coefficients that never change."""
    Path("policies/all.yaml").write_text(yaml.safe_dump(SEARCHED, sort_keys=False))
    weights = {"dense": 8.0, "lead": 8.0}
    stored = {"features": list(FEATURES), "intercept": -4.0, "weights": weights}
    Path("fitted.json").write_bytes(orjson.dumps(stored))
    changes = {"store": "sqlite:///kept.db", "semantic": {"calibration": "fitted.json"}}
    Path(config).write_text(yaml.safe_dump(CONFIG | changes))
    Path("cases.txt").write_text(CASES)
    return config


@needs_model
def test_index_embeds_what_is_missing_and_nothing_twice(searched: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["index", "--config", searched]) == 0
    assert capsys.readouterr().out == "2 passages: 2 embedded now, 0 already embedded\n"
    assert main(["index", "--config", searched]) == 0
    assert capsys.readouterr().out == "2 passages: 0 embedded now, 2 already embedded\n"


@needs_model
def test_index_embeds_on_demand_resources_only_when_asked_for_all(
    searched: str, capsys: pytest.CaptureFixture[str]
) -> None:
    offered = yaml.safe_dump(SEARCHED, sort_keys=False).replace("mode: semantic", "mode: on_demand")
    Path("policies/all.yaml").write_text(offered)
    assert main(["index", "--config", searched]) == 0
    assert capsys.readouterr().out == "0 passages: 0 embedded now, 0 already embedded\n"
    assert main(["index", "--config", searched, "--all"]) == 0
    assert capsys.readouterr().out == "2 passages: 2 embedded now, 0 already embedded\n"


def test_index_of_policies_without_anything_to_find(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("policies/all.yaml").write_text("contexts: {a: {}}")
    assert main(["index", "--config", config]) == 0
    assert capsys.readouterr().out == "0 passages: 0 embedded now, 0 already embedded\n"


@pytest.mark.parametrize("command", [["index"], ["eval", "cases.txt"]])
@pytest.mark.parametrize(
    ("semantic", "told"),
    [
        ({"enabled": False}, "semantic.enabled is false"),
        ({"embedder": {"path": "nowhere"}}, "nowhere/model.onnx cannot be read"),
        ({"calibration": "nowhere.json"}, "nowhere.json cannot be used"),
    ],
)
def test_a_search_that_cannot_be_used_exits_with_1_and_the_reason(
    searched: str, capsys: pytest.CaptureFixture[str], command: list[str], semantic: dict[str, Any], told: str
) -> None:
    Path(searched).write_text(yaml.safe_dump(CONFIG | {"semantic": semantic}))
    assert main([*command, "--config", searched]) == 1
    assert told in capsys.readouterr().err


@needs_model
def test_resolve_shows_what_is_found_by_meaning(searched: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = resolve(searched, capsys, "How long do parcels take to Austria?")
    (found,) = shown["selection"]["injected"]
    assert (found["id"], found["via"], found["score"] > 0.5) == ("help/delivery", "semantic", True)


def test_resolve_without_an_embedder_leaves_semantic_resources_on_demand(
    searched: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(searched).write_text(yaml.safe_dump(CONFIG | {"semantic": {"embedder": {"path": "nowhere"}}}))
    shown = resolve(searched, capsys, "How long do parcels take to Austria?")
    assert shown["selection"]["injected"] == []
    assert [one["id"] for one in shown["selection"]["catalogue"]] == ["help/delivery", "help/privacy"]


@needs_model
def test_eval_of_good_policies_reaches_its_targets(searched: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--min-precision", "1", "--min-recall", "1", "--max-false", "0"]
    assert main(["eval", "cases.txt", "--config", searched, *flags]) == 0
    out = capsys.readouterr().out
    assert out.startswith("4 cases, 1 expecting nothing\n")
    assert out.endswith("all targets are met\n")


@needs_model
def test_eval_exits_with_1_when_a_target_is_missed_and_says_what_would_help(
    searched: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("cases.txt").write_text(CASES + "  - {question: 'Any news about the weather?', expect: [help/privacy]}\n")
    assert main(["eval", "cases.txt", "--config", searched, "--json", "--min-recall", "0.9"]) == 1
    told = orjson.loads(capsys.readouterr().out)
    assert told["missed_targets"] == ["recall is 0.750, target ≥ 0.9"]
    (wrong,) = told["wrong"]
    assert (wrong["line"], wrong["unexpected"]) == (6, [])
    assert wrong["missed"][0]["change"].startswith("add an example question like this one")


@needs_model
def test_eval_without_targets_only_informs(searched: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("cases.txt").write_text("cases:\n  - {question: Who painted the Mona Lisa?, expect: [help/privacy]}\n")
    assert main(["eval", "cases.txt", "--config", searched]) == 0
    assert "1 wrong case:" in capsys.readouterr().out


@needs_model
def test_eval_says_when_a_resource_is_out_of_reach(searched: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("cases.txt").write_text("cases:\n  - {question: Parcels?, expect: [help/delivery], agent: mute}\n")
    assert main(["eval", "cases.txt", "--config", searched]) == 0
    assert "missed help/delivery, without a score: it is not assigned here" in capsys.readouterr().out


@needs_model
def test_eval_tells_what_the_gateway_would_refuse_as_faults(searched: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("cases.txt").write_text(
        "cases:\n  - {question: Q?, expect: [], agent: mut}\n  - {question: Q?, expect: [], content: nowhere}\n"
    )
    assert main(["eval", "cases.txt", "--config", searched]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first == "cases.txt:2: cases.0.agent: There is no agent 'mut'. Did you mean 'mute'?"
    assert second.startswith("cases.txt:3: cases.1.content: There is no content 'nowhere'.")


@needs_model
def test_a_fit_needs_enough_cases(searched: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "cases.txt", "--config", searched, "--fit", "new.json"]) == 1
    assert "A fit needs at least 20 cases" in capsys.readouterr().err
    assert not Path("new.json").exists()


@needs_model
def test_a_fit_that_helps_is_written_and_can_be_used(searched: str, capsys: pytest.CaptureFixture[str]) -> None:
    nouns = ("parcels", "boxes", "letters", "orders", "books", "lamps", "chairs", "shirts", "cups", "plants")
    # Here nobody wants the delivery times, however near they are: the shipped coefficients cannot know that.
    asked = [f"  - {{question: How long do {noun} take to Austria?, expect: []}}\n" for noun in nouns]
    asked += [
        f"  - {{question: Does a newsletter about {noun} need consent?, expect: [help/privacy]}}\n" for noun in nouns
    ]
    Path("cases.txt").write_text("cases:\n" + "".join(asked))
    assert main(["eval", "cases.txt", "--config", searched, "--fit", "new.json", "--json"]) == 0
    made = orjson.loads(capsys.readouterr().out)["fit"]
    assert made["written"] == "new.json"
    assert made["loss"]["after"] < made["loss"]["before"]
    Path(searched).write_text(yaml.safe_dump(CONFIG | {"semantic": {"calibration": "new.json"}}))
    assert main(["eval", "cases.txt", "--config", searched]) == 0
