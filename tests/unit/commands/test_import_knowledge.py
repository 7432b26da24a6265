"""`gateway import-knowledge`: JSON lines into the store, again and again."""

from pathlib import Path

import pytest

from gateway.cli import main

LINES = """{"kind": "entity", "id": "refunds", "type": "Endpoint", "name": "Refunds endpoint"}

{"kind": "entity", "id": "cursor", "type": "Parameter", "name": "Cursor", "aliases": ["Page token"]}
{"kind": "relationship", "from": "refunds", "type": "accepts", "to": "cursor"}
{"kind": "axiom", "id": "money", "types": ["Endpoint"], "text": "Amounts are in cents."}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "policies").mkdir()
    path = tmp_path / "config.yaml"
    path.write_text("upstreams: {demo: {kind: demo}}\nroutes: [{model: '*', upstream: demo}]\n")
    return path


def run(config: Path, text: str, *flags: str) -> int:
    file = config.with_name("graph.jsonl")
    file.write_text(text, encoding="utf-8")
    return main(["import-knowledge", str(file), "--config", str(config), *flags])


def test_the_same_file_again_changes_nothing(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(config, LINES, "--dry-run") == 0
    assert run(config, LINES) == 0
    assert run(config, LINES) == 0
    assert run(config, LINES.replace("Cursor", "Page cursor")) == 0
    assert capsys.readouterr().out.splitlines() == [
        "4 created, 0 updated, 0 deleted, 0 unchanged (dry run: nothing was changed)",
        "4 created, 0 updated, 0 deleted, 0 unchanged",
        "0 created, 0 updated, 0 deleted, 4 unchanged",
        "0 created, 1 updated, 0 deleted, 3 unchanged",
    ]


def test_replace_deletes_what_the_file_does_not_have(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(config, LINES)
    assert run(config, LINES.splitlines()[0], "--replace", "--json") == 0
    assert '"deleted": 3' in capsys.readouterr().out


def test_every_fault_has_its_line_and_nothing_is_stored(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = [
        '{"kind": "entity", "id": "a", "type": "T", "name": "A"}',
        "not json",
        '{"kind": "thing"}',
        '{"kind": "entity", "id": "a", "type": "T", "name": "Again"}',
        '{"kind": "entity", "id": "", "type": "T", "name": "B"}',
        '{"kind": "entity", "id": "c", "type": "T", "nmae": "C"}',
        "[1]",
    ]
    assert run(config, "\n".join(wrong)) == 1
    lines = [line.partition("graph.jsonl:")[2] for line in capsys.readouterr().out.splitlines()]
    assert [line.partition(":")[0] for line in lines] == ["2", "3", "4", "5", "6", "6", "7"]
    assert run(config, wrong[0]) == 0
    assert "1 created" in capsys.readouterr().out


def test_a_relationship_needs_its_entities(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(config, LINES.splitlines()[3]) == 1
    assert "there is no entity 'refunds'" in capsys.readouterr().out


def test_what_a_policy_file_defines_is_refused(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = "knowledge: {entities: {refunds: {type: Endpoint, name: Refunds}}}"
    (config.parent / "policies" / "graph.yaml").write_text(graph)
    assert run(config, LINES) == 1
    assert "graph.yaml:1" in capsys.readouterr().err


def test_quotas_hold_for_the_whole_import(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(config.read_text() + "quotas: {entities: 1}\n")
    assert run(config, LINES) == 1
    assert "entities" in capsys.readouterr().err
