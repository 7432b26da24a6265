"""A tree to which changes are applied is the tree that would be built from all nodes."""

from random import Random

from gateway.domain.record import Record, RecordKey
from gateway.policies.content_tree import ContentTree, add_stored_nodes, build_file_tree
from gateway.policies.files import EntryLocation, PolicyEntry
from gateway.policies.tree_update import update_tree
from gateway.policies.workspace import make_stored_entry
from gateway.strict_yaml import YamlDocument

FILES = {"site": {"children": {"late": {"order": 2}, "news": {}}}, "shop": None}


def build_files() -> ContentTree:
    document = YamlDocument("files", {"content": FILES}, {})
    place = EntryLocation(document, ("content",))
    return build_file_tree(PolicyEntry(key, place / key, data) for key, data in FILES.items())


def make_entry(number: int, made: int, parent: str | None, draw: Random) -> PolicyEntry:
    data = {
        "key": draw.choice(("a", "b", f"k{number}", f"k{number}")),
        "parent": parent,
        "title": f"T{draw.randrange(3)}",
        "order": draw.choice((0, 0, 0, -1, 5)),
        "readers": draw.choice(([], ["group:a"], ["user:b"])),
        "contexts": draw.choice(([], [], ["c"])),
    }
    record = Record(RecordKey("w", "content", f"n{number}"), f"{made:06}", 1, b"{}", 0.0, "ada", "create")
    return make_stored_entry("content", f"n{number}", data, record)


def change(stored: dict[str, PolicyEntry], draw: Random, made: int) -> dict[str, PolicyEntry]:
    """A few nodes made, moved, changed or deleted; not all of it is valid."""
    changed = dict(stored)
    for _ in range(draw.randrange(1, 4)):
        number = draw.randrange(30)
        known = changed.get(f"n{number}")
        if known is not None and draw.random() < 0.15:
            del changed[f"n{number}"]
            continue
        parent = draw.choice(
            [None, "site", "site/news", *(draw.sample(sorted(changed), 2) if len(changed) > 1 else [])]
        )
        if known is not None and draw.random() < 0.4:
            parent = known.data["parent"]
        age = int(known.record.id) if known is not None and known.record is not None else made
        changed[f"n{number}"] = make_entry(number, age, parent, draw)
        made += 1
    return dict(sorted(changed.items(), key=lambda pair: pair[1].record.id if pair[1].record else ""))


def test_an_updated_tree_is_the_tree_that_would_be_built() -> None:
    files, updates = build_files(), 0
    for seed in range(60):
        draw = Random(seed)
        stored: dict[str, PolicyEntry] = {}
        tree = add_stored_nodes(files, stored)
        for step in range(25):
            wanted = change(stored, draw, 100 * step)
            built, updated = add_stored_nodes(files, wanted), update_tree(tree, wanted)
            if built.faults:
                assert updated is None
                continue
            assert updated is not None
            assert (updated.nodes, updated.ids) == (built.nodes, built.ids)
            assert updated.structure.children == built.structure.children
            assert updated.digest == built.digest
            assert updated.readers >= built.readers
            assert updated.facts.referring == built.facts.referring
            assert {path: one.alias for path, one in updated.entries.items()} == {
                path: one.alias for path, one in built.entries.items()
            }
            places = {path: place for place, path in enumerate(updated.nodes)}
            assert all(
                node.parent is None or places[node.parent] < places[node.path] for node in updated.nodes.values()
            )
            tree, stored, updates = updated, wanted, updates + 1
    assert updates > 300


def test_a_tree_with_faults_is_built_anew() -> None:
    files = build_files()
    broken = add_stored_nodes(files, {"n1": make_entry(1, 1, "nowhere", Random(1))})
    assert broken.faults
    assert update_tree(broken, {}) is None
