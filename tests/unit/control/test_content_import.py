"""Content is imported from Markdown, JSON lines and CSV: checked as a whole, and only what differs is stored."""

from pathlib import Path

import orjson
import pytest

from gateway.control.content_import import BATCH, ContentImporter, ContentImportResult
from gateway.control.sources.markdown import MarkdownFolder
from gateway.control.sources.rows import CsvFile, JsonLines
from gateway.control.sources.source_node import ContentSource, make_key
from gateway.domain.content import Backlink
from gateway.errors import Faults, QuotaExceeded
from gateway.settings import QuotaSettings
from tests.support.control_plane import ANNA, ControlPlane


@pytest.fixture
async def house(tmp_path: Path) -> ControlPlane:
    return await ControlPlane.start(tmp_path / "policies", {"contexts": {"voice": {}}, "content": {"site": {}}})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "index.md": "The handbook's own page is not imported: only what is in it.",
        "Über uns/README.md": "---\ntitle: About\norder: 2\n---\n# Ignored\nWe are here.",
        "Über uns/team.md": "# The team\nSee [the rules](../rules.md#top) and [home](README.md).",
        "rules.md": "---\ntype: policy\nreaders: [group:staff]\nstatus: final\nproperties: {owner: ada}\n"
        "contexts: [voice]\nlinks: [{to: site, type: part-of}]\n---\nNo running.",
        ".hidden.md": "secret",
        "notes.txt": "other format",
    }.items():
        file = tmp_path / "docs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path / "docs"


async def take(house: ControlPlane, source: ContentSource, **options: object) -> ContentImportResult:
    importer = ContentImporter(house.policies, house.writer)
    return await importer.run(ANNA, source, lambda *_: None, **options)  # type: ignore[arg-type]


async def test_a_folder_becomes_a_tree(house: ControlPlane, folder: Path) -> None:
    result = await take(house, MarkdownFolder(folder, "site", "site"))
    assert result == ContentImportResult(created=3)
    tree = house.snapshot.tree
    assert [one.path for one in tree.list_branch(tree.nodes["site"])] == [
        "site",
        "site/rules",
        "site/uber-uns",
        "site/uber-uns/team",
    ]
    rules, team = tree.nodes["site/rules"], tree.nodes["site/uber-uns/team"]
    assert (rules.type, rules.readers, rules.contexts, rules.title) == ("policy", ("group:staff",), ("voice",), "Rules")
    assert (tree.nodes["site/uber-uns"].title, tree.nodes["site/uber-uns"].order, team.title) == (
        "About",
        2,
        "The team",
    )
    said = await house.contents.read("default", [rules.id, team.id])
    assert (said[rules.id].body, said[rules.id].properties) == ("No running.", {"status": "final", "owner": "ada"})
    assert [link.target for link in said[team.id].links] == [rules.id, "site/uber-uns"]
    assert await house.contents.list_backlinks("default", rules.id, 9) == [Backlink("link", team.id)]


async def test_importing_again_changes_only_what_differs(house: ControlPlane, folder: Path) -> None:
    await take(house, MarkdownFolder(folder, "site", "site"))
    before = house.snapshot
    (folder / "rules.md").write_text((folder / "rules.md").read_text().replace("No running", "No shouting"))
    assert await take(house, MarkdownFolder(folder, "site", "site")) == ContentImportResult(updated=1, unchanged=2)
    assert house.snapshot is before
    assert house.node("site/rules").version == 2


async def test_what_a_source_lacks_is_deleted_only_if_that_is_wanted(house: ControlPlane, folder: Path) -> None:
    await house.content.create(ANNA, {"key": "own", "id": "own"})
    await take(house, MarkdownFolder(folder, "site", "site"))
    (folder / "Über uns" / "team.md").unlink()
    source = MarkdownFolder(folder, "site", "site")
    assert (await take(house, source)).deleted == 0
    assert (await take(house, source, prune="site", dry_run=True)).deleted == 1
    assert "site/uber-uns/team" in house.snapshot.tree.nodes
    assert (await take(house, source, prune="site")).deleted == 1
    assert sorted(house.snapshot.tree.nodes) == ["own", "site", "site/rules", "site/uber-uns"]


async def test_every_fault_names_its_file_and_line_and_nothing_is_stored(house: ControlPlane, folder: Path) -> None:
    (folder / "bad.md").write_text("---\ntitle: [\n---\n")
    (folder / "readers.md").write_text("---\nreaders: [ada]\n---\n")
    (folder / "Rules.md").write_text("same key")
    (folder / "latin.md").write_bytes(b"one\ntwo \xe9\n")
    with pytest.raises(Faults) as caught:
        await take(house, MarkdownFolder(folder))
    places = {(Path(fault.file).name, fault.line) for fault in caught.value.faults}
    assert places == {("bad.md", 3), ("readers.md", 1), ("rules.md", 1), ("latin.md", 2)}
    assert sorted(house.snapshot.tree.nodes) == ["site"]


async def test_lines_of_json_are_nodes(house: ControlPlane, tmp_path: Path) -> None:
    lines = [
        {"id": f"n{number}", "parent": "site" if number < 3 else f"n{number % 3}", "body": "x"} for number in range(9)
    ]
    file = tmp_path / "nodes.jsonl"
    file.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    assert await take(house, JsonLines(file)) == ContentImportResult(created=9)
    assert house.snapshot.tree.ids["n7"] == "site/n1/n7"


async def test_faults_of_lines_and_of_the_tree_name_lines(house: ControlPlane, tmp_path: Path) -> None:
    file = tmp_path / "nodes.jsonl"
    file.write_text('{"id": "a", "contexts": ["gone"]}\n{"id": 7}\n\n{"id": "b", "typ": "x"}\nnonsense\n{"id": "a"}\n')
    with pytest.raises(Faults) as caught:
        await take(house, JsonLines(file))
    assert sorted(fault.line for fault in caught.value.faults) == [2, 4, 5, 6]
    file.write_text('{"id": "a", "contexts": ["gone"]}\n{"id": "b", "parent": "nowhere"}\n{"id": "site"}\n')
    with pytest.raises(Faults) as caught:
        await take(house, JsonLines(file))
    assert sorted({fault.line for fault in caught.value.faults}) == [1, 2, 3]


async def test_rows_are_nodes_below_their_file(house: ControlPlane, tmp_path: Path) -> None:
    file = tmp_path / "Open Tasks.csv"
    file.write_text('id,Name,Status,body\nT-1,"Paint, twice",open,"Two\nlines"\n,Clean,done,\n,,,\n', encoding="utf-8")
    assert await take(house, CsvFile(file, "site", "site")) == ContentImportResult(created=3)
    tree = house.snapshot.tree
    table = tree.nodes["site/open-tasks"]
    rows = tree.list_children(table)
    assert (table.type, [(one.path, one.title, one.type) for one in rows]) == (
        "database",
        [("site/open-tasks/t-1", "Paint, twice", "row"), ("site/open-tasks/row-2", "Clean", "row")],
    )
    said = (await house.contents.read("default", [rows[0].id]))[rows[0].id]
    assert (said.body, said.properties) == ("Two\nlines", {"id": "T-1", "Name": "Paint, twice", "Status": "open"})


async def test_more_than_one_batch_is_stored(house: ControlPlane, tmp_path: Path) -> None:
    file = tmp_path / "many.csv"
    file.write_text("id,title\n" + "".join(f"k{number},T{number}\n" for number in range(2 * BATCH + 3)))
    shown: list[tuple[str, int, int]] = []
    importer = ContentImporter(house.policies, house.writer)
    result = await importer.run(ANNA, CsvFile(file), lambda *step: shown.append(step))
    assert result.created == 2 * BATCH + 4
    assert shown[-1] == ("Importing", 2 * BATCH + 4, 2 * BATCH + 4)
    assert len(house.snapshot.tree.ids) == 2 * BATCH + 5


async def test_the_quota_counts_before_anything_is_stored(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "none").mkdir()
    (folder / "rules.md").write_text("No running.")
    small = ControlPlane(tmp_path / "none", quotas=QuotaSettings(content=2))
    await small.policies.start()
    with pytest.raises(QuotaExceeded):
        await take(small, MarkdownFolder(folder))
    assert small.snapshot.tree.ids == {}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Über uns", "uber-uns"),
        ("a.b_c", "a.b_c"),
        ("--x--", "x"),
        ("日本", "cf2abf0c"),
        ("日本 guide", "guide-185f5938"),
        ("A" * 99, "a" * 64),
    ],
)
def test_a_name_suggests_a_key(name: str, key: str) -> None:
    assert make_key(name) == key
