"""`gateway adopt`, `gateway release`, what `gateway check` says then, and `gateway export --to`."""

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from gateway.cli import main
from gateway.control.yaml_writer import format_yaml

TEXT: dict[str, Any] = {"type": "text", "data": {"content": "One."}}
FILES: dict[str, Any] = {
    "contexts": {
        "zulu": {"mandatory": True, "resources": {"z": TEXT}},
        "alpha": {"mandatory": True, "resources": {"a": TEXT}},
        "house": {
            "resources": {"voice": TEXT, "guide": {"type": "document", "mode": "on_demand", "data": {"path": "g.md"}}}
        },
    },
    "agents": {"editor": {"contexts": ["house"]}},
    "content": {"site": {"contexts": ["house"], "children": {"blog": None}}},
}


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "all.yaml").write_text(format_yaml(FILES))
    (tmp_path / "policies" / "g.md").write_text("Be brief.")
    config = {
        "policies": "policies",
        "store": "sqlite:///gateway.db",
        "upstreams": {"demo": {"kind": "demo"}},
        "routes": [{"model": "*", "upstream": "demo"}],
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    return tmp_path


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["check", "--json", *arguments]) == 0
    return dict(orjson.loads(capsys.readouterr().out))


def test_a_check_needs_no_store_and_makes_none(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys)["shadowed"] == []
    assert not (house / "gateway.db").exists()


def test_what_is_adopted_is_shown_as_shadowed_until_it_is_released(
    house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["adopt", "contexts/house"]) == 0
    assert capsys.readouterr().out == "adopt contexts/house (all.yaml:16)\n1 adopted\n"
    assert main(["check"]) == 0
    told = "all.yaml:16: contexts/house: shadowed, workspace default has adopted it"
    assert told in capsys.readouterr().out.splitlines()
    (shadowed,) = check(capsys)["shadowed"]
    assert shadowed == {"workspace": "default", "object": "contexts/house", "file": "all.yaml:16"}
    assert main(["release", "--all", "--dry-run"]) == 0
    assert "1 released (dry run: nothing was changed)" in capsys.readouterr().out
    assert main(["release", "--all"]) == 0
    capsys.readouterr()
    assert check(capsys)["shadowed"] == []


def test_everything_that_can_be_is_adopted(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["adopt", "--all", "--json"]) == 0
    told = orjson.loads(capsys.readouterr().out)
    assert [one["alias"] for one in told["items"] if one["action"] == "adopt"] == [
        "house",
        "editor",
        "site",
        "site/blog",
    ]
    assert [one["alias"] for one in told["items"] if one["reason"]] == ["zulu", "alpha"]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["adopt"], 2),
        (["adopt", "contexts/house", "--all"], 2),
        (["adopt", "house"], 2),
        (["adopt", "keys/one"], 2),
        (["adopt", "contexts/none"], 1),
        (["adopt", "contexts/zulu"], 1),
        (["release", "contexts/house"], 1),
    ],
)
def test_what_cannot_be_done_has_its_exit_code(house: Path, arguments: list[str], status: int) -> None:
    if status == 1:
        assert main(arguments) == 1
    else:
        with pytest.raises(SystemExit, match="2"):
            main(arguments)


def test_exported_files_load_to_the_same_hash(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = check(capsys)["snapshot"]
    assert main(["adopt", "--all"]) == 0
    (house / "more.json").write_bytes(orjson.dumps({"agents": {"mine": {"contexts": ["alpha"]}}}))
    assert main(["import", "more.json"]) == 0
    capsys.readouterr()
    for _ in range(2):  # an earlier export is replaced
        assert main(["export", "--to", "out"]) == 0
        *names, said = capsys.readouterr().out.splitlines()
        assert names == ["out/contexts.yaml", "out/agents.yaml", "out/content.yaml", "out/documents.yaml"]
        after = check(capsys, "--policies", "out")["snapshot"]
        assert said == f"ok: snapshot {after}"
    assert after != before
    capsys.readouterr()
    assert main(["release", "--all"]) == 0
    assert "/resources" not in capsys.readouterr().out  # the document is the same, by path or by hash
    assert main(["import", "more.json", "--replace"]) == 0
    assert main(["resolve", "--json", "--model", "demo", "Hello"]) == 0  # as a gateway sees it, with the stored agent
    assert after in capsys.readouterr().out


def test_large_policies_are_split_into_files_that_can_be_loaded(
    house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = "A line of text.\n" * 15_000
    big = {
        name: {"mandatory": True, "resources": {"t": {"type": "text", "data": {"content": lines}}}}
        for name in ("zeta", "beta", "omega", "delta")
    }
    (house / "more.json").write_bytes(orjson.dumps({"contexts": big}))
    assert main(["import", "more.json"]) == 0
    assert main(["export", "--to", "out"]) == 0
    told = capsys.readouterr().out
    assert "out/contexts-002.yaml" in told
    assert main(["resolve", "--json", "--model", "demo", "Hello"]) == 0
    assert f'"snapshot": "{told.split()[-1]}"' in capsys.readouterr().out


def test_nothing_is_mixed_with_other_policies(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--to", "policies"]) == 1
    assert "holds other policies, such as all.yaml" in capsys.readouterr().err
    assert sorted(path.name for path in (house / "policies").iterdir()) == ["all.yaml", "g.md"]
