"""`gateway export` and `gateway import` on the configured store."""

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from gateway.cli import main
from gateway.commands.export import split_into_files
from gateway.strict_yaml import parse_yaml

FILES = {
    "contexts": {
        "rules": {"mandatory": True},
        "house": {"resources": {"voice": {"type": "text", "data": {"content": "One.\nTwo."}}}},
    },
    "agents": {"editor": {"contexts": ["house"]}},
}


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a configuration, policies and an empty one beside it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / "nothing").mkdir()
    (tmp_path / "policies" / "all.yaml").write_text(yaml.safe_dump(FILES))
    config = {
        "policies": "policies",
        "store": "sqlite:///gateway.db",
        "upstreams": {"demo": {"kind": "demo"}},
        "routes": [{"model": "*", "upstream": "demo"}],
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    return tmp_path


def test_a_bundle_goes_out_and_in_again(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export"]) == 0
    text = capsys.readouterr().out
    assert parse_yaml(text, "bundle").data == FILES
    assert "content: |-\n            One.\n            Two.\n" in text
    (house / "bundle.yaml").write_text(text)
    assert main(["import", "bundle.yaml"]) == 0
    assert capsys.readouterr().out == "0 created, 0 updated, 0 deleted, 3 unchanged\n"
    assert main(["import", "bundle.yaml", "--policies", "nothing"]) == 0
    assert capsys.readouterr().out == (
        "create contexts/house\ncreate contexts/rules\ncreate agents/editor\n"
        "3 created, 0 updated, 0 deleted, 0 unchanged\n"
    )
    assert main(["export", "--policies", "nothing", "--source", "stored", "--format", "json"]) == 0
    assert orjson.loads(capsys.readouterr().out) == FILES


def test_what_is_known_goes_out_and_in_again(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = {f"part-{number}": {"type": "Part", "name": f"Part {number}"} for number in range(3)}
    ties = {"r": {"from": "part-0", "type": "fits", "to": "part-1"}}
    graph = {"knowledge": {"entities": parts, "relationships": ties, "axioms": {"a": {"types": ["Part"], "text": "T"}}}}
    (house / "graph.yaml").write_text(yaml.safe_dump(graph))
    assert main(["import", "graph.yaml", "--dry-run"]) == 0
    assert "create entities/part-0\n" in (told := capsys.readouterr().out)
    assert "5 created, 0 updated, 0 deleted, 0 unchanged (dry run" in told
    assert main(["import", "graph.yaml"]) == 0
    capsys.readouterr()
    assert main(["export", "--format", "json"]) == 0
    assert orjson.loads(capsys.readouterr().out) == {**FILES, **graph}
    assert main(["export", "--to", "out"]) == 0
    assert "knowledge.yaml" in capsys.readouterr().out
    assert main(["export", "--to", "out"]) == 0, "its own files are replaced"
    assert main(["import", "graph.yaml", "--policies", "out"]) == 0
    assert capsys.readouterr().out.endswith("0 created, 0 updated, 0 deleted, 5 unchanged\n")
    (house / "wrong.yaml").write_text("knowledge:\n  entities:\n    new: {type: T}\n")
    assert main(["import", "wrong.yaml"]) == 1
    assert "wrong.yaml:3: /knowledge/entities/new/name" in capsys.readouterr().out


def test_a_large_graph_is_exported_in_several_files() -> None:
    entities = {f"e{number}": {"type": "T", "name": "N", "properties": {"p": "x" * 3000}} for number in range(400)}
    axioms = {"a": {"types": ["T"], "text": "Text"}}
    files = dict(split_into_files({"knowledge": {"entities": entities, "axioms": axioms}}))
    assert list(files) == ["knowledge-001.yaml", "knowledge-002.yaml", "knowledge-003.yaml"]
    assert all(len(text.encode()) < 2**20 for text in files.values())
    read = [parse_yaml(text, "part").data["knowledge"] for text in files.values()]
    assert {key: one for part in read for key, one in part["entities"].items()} == entities
    assert read[-1]["axioms"] == axioms


def test_a_dry_run_only_tells(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (house / "a.json").write_bytes(orjson.dumps({"agents": {"mine": {"temperature": 0.5}}}))
    assert main(["import", "a.json", "--dry-run"]) == 0
    assert "create agents/mine\n1 created" in (told := capsys.readouterr().out)
    assert "nothing was changed" in told
    assert main(["import", "a.json"]) == 0
    (house / "b.yaml").write_text("agents: {mine: {temperature: 1, instructions: no}}\n")
    capsys.readouterr()
    assert main(["import", "b.yaml", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["update agents/mine", "  /temperature: 0.5 → 1.0", '  /instructions: null → "no"']


def test_replace_deletes_what_the_bundle_lacks(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundles: tuple[dict[str, Any], ...] = ({"a": {}, "b": {}}, {"b": {}})
    for number, agents in enumerate(bundles):
        (house / f"{number}.json").write_bytes(orjson.dumps({"agents": agents}))
    assert main(["import", "0.json"]) == 0
    assert main(["import", "1.json", "--replace", "--json"]) == 0
    told = orjson.loads(capsys.readouterr().out.split("\n", 3)[3])
    assert [(one["alias"], one["action"]) for one in told["items"]] == [("b", "unchanged"), ("a", "delete")]


def test_a_workspace_keeps_what_is_imported_to_itself(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (house / "a.json").write_bytes(orjson.dumps({"agents": {"mine": {}}}))
    assert main(["import", "a.json", "--workspace", "other"]) == 0
    capsys.readouterr()
    expected: dict[str, dict[str, Any]] = {"other": {"agents": {"mine": {}}}, "default": {}}
    for workspace, held in expected.items():
        assert main(["export", "--source", "stored", "--format", "json", "--workspace", workspace]) == 0
        assert orjson.loads(capsys.readouterr().out) == held


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("agents:\n  a:\n    contexts: [house, huose]\n", "bundle.yaml:3: /agents/a/contexts/1: there is no context"),
        ("agents:\n  a: {}\n\nagent: {}\n", "bundle.yaml:4: /agent: is not a known key"),
        ("agents: &x {}\n", "bundle.yaml:1: agents: anchors are not allowed"),
    ],
)
def test_faults_are_told_with_their_lines(
    house: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    (house / "bundle.yaml").write_text(text)
    assert main(["import", "bundle.yaml"]) == 1
    assert capsys.readouterr().out.startswith(told)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["import", "missing.yaml"], 1),
        (["import", "owned.json"], 1),
        (["import", "broken.json"], 1),
        (["import"], 2),
        (["export", "--format", "toml"], 2),
    ],
)
def test_what_cannot_be_done_has_its_exit_code(house: Path, arguments: list[str], status: int) -> None:
    (house / "owned.json").write_bytes(orjson.dumps({"contexts": {"rules": {}}}))
    (house / "broken.json").write_text("{")
    assert get_exit_code(arguments) == status


def test_nothing_is_imported_into_a_store_that_ends_with_the_process(house: Path) -> None:
    config: dict[str, Any] = yaml.safe_load((house / "config.yaml").read_text()) | {"store": "memory:"}
    (house / "config.yaml").write_text(yaml.safe_dump(config))
    (house / "a.json").write_text("{}")
    assert (get_exit_code(["import", "a.json"]), get_exit_code(["export"])) == (1, 0)


def get_exit_code(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)
