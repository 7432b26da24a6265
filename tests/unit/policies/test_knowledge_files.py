"""The section `knowledge` of policy files."""

from pathlib import Path

import pytest

from gateway.domain.knowledge import KnowledgeSet
from gateway.errors import Faults
from gateway.policies.context_compiler import PolicySource
from gateway.policies.file_policies import FilePolicyReader
from gateway.policy_check import load_type_registry
from gateway.settings_loader import load_settings
from tests.support.managed_policies import NoMaterials


def make_reader(directory: Path) -> FilePolicyReader:
    return FilePolicyReader(PolicySource(directory, load_type_registry(load_settings(None, {})), NoMaterials()))


def read(directory: Path, **files: str) -> KnowledgeSet:
    for name, text in files.items():
        (directory / f"{name}.yaml").write_text(text)
    return make_reader(directory).read().knowledge


def test_several_files_make_one_graph(tmp_path: Path) -> None:
    known = read(
        tmp_path,
        a="knowledge: {entities: {a: {type: T, name: A}}, relationships: [{from: a, type: t, to: b}]}",
        b="knowledge:\n  entities: {b: {type: T, name: B}}\n  axioms: {x: {types: [T], text: X}}\n",
    )
    assert (list(known.entities), list(known.axioms)) == (["a", "b"], ["x"])
    (tie,) = known.relationships.values()
    assert (tie.source, tie.type, tie.target) == ("a", "t", "b")
    assert known.places[("entities", "b")] == "b.yaml:2"


def test_the_set_is_the_same_object_until_a_section_changes(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("knowledge: {entities: {a: {type: T, name: A}}}")
    reader = make_reader(tmp_path)
    first = reader.read().knowledge
    (tmp_path / "b.yaml").write_text("agents: {x: {}}")
    assert reader.read().knowledge is first
    (tmp_path / "a.yaml").write_text("knowledge: {entities: {a: {type: T, name: Other}}}")
    assert reader.read().knowledge.entities["a"].name == "Other"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("knowledge: [1]", "knowledge: must be a mapping"),
        ("knowledge: {entites: {}}", "did you mean 'entities'?"),
        ("knowledge: {entities: {a b: {type: T, name: A}}}", "an id is 1 to 128"),
        ("knowledge: {entities: {a: {type: T}}}", "knowledge.entities.a.name: is required"),
        ("knowledge: {relationships: [{from: a, type: t, to: b}]}", "there is no entity 'a'"),
        ("knowledge: {relationships: [1]}", "must be a mapping"),
        ("knowledge: {axioms: {a: {types: [T], text: X, readers: [x]}}}", "does not say whether it is a user"),
        ("knowlege: {}", "did you mean 'knowledge'?"),
    ],
)
def test_faults_have_their_place(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(Faults) as caught:
        read(tmp_path, a=text)
    assert fault in str(caught.value)


def test_an_id_is_used_once(tmp_path: Path) -> None:
    one = "knowledge: {entities: {a: {type: T, name: A}}}"
    with pytest.raises(Faults, match=r"already defined in a\.yaml:1"):
        read(tmp_path, a=one, b=one)
