"""An edit costs what has changed: the passages of everybody else's resources are neither split nor hashed again."""

import pytest
from msgspec.structs import replace

from gateway.domain.resource import Mode, Resource
from gateway.semantic.index import passages
from gateway.semantic.index.passages import Passage, PassageSplitter, split_resources
from tests.support.search_harness import resource


@pytest.fixture
def splitting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are split."""
    texts: list[str] = []
    split_text = passages.split_text

    def note(text: str) -> list[str]:
        texts.append(text)
        return split_text(text)

    monkeypatch.setattr(passages, "split_text", note)
    return texts


@pytest.fixture
def hashing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passages whose keys are computed."""
    texts: list[str] = []
    make_key = Passage.key

    def note(passage: Passage, model: str) -> bytes:
        texts.append(passage.text)
        return make_key(passage, model)

    monkeypatch.setattr(Passage, "key", note)
    return texts


def make_resources() -> list[Resource]:
    return [resource(f"r{number}", f"Text {number}. " * 60, examples=("How?",)) for number in range(20)]


def test_only_what_has_changed_is_split_and_hashed(splitting, hashing):
    splitter, resources = PassageSplitter(), make_resources()
    before, _ = splitter.split(resources, "m")
    assert len(splitting) == 20
    hashed = len(hashing)
    assert hashed == len(before)
    edited = [replace(one, text="New.") if one.id == resources[3].id else replace(one) for one in resources]
    after, keys = splitter.split(edited, "m")
    assert splitting[20:] == [passages.compose_text(edited[3])]
    assert len(hashing) - hashed == 2  # its passage and its example
    assert after == split_resources(edited)
    assert keys == [passage.key("m") for passage in after]


@pytest.mark.parametrize(
    "change", [{"name": "Other"}, {"description": "Other"}, {"text": "Other"}, {"examples": ("Why?",)}]
)
def test_every_part_by_which_a_resource_is_found_counts(change):
    splitter, resources = PassageSplitter(), make_resources()
    splitter.split(resources, "m")
    edited = [replace(resources[0], **change), *resources[1:]]
    assert splitter.split(edited, "m")[0] == split_resources(edited) != split_resources(resources)


def test_what_is_gone_or_no_longer_indexed_is_forgotten(splitting):
    splitter, resources = PassageSplitter(), make_resources()
    splitter.split(resources, "m")
    hidden = [replace(one, mode=Mode.ALWAYS) if one.id == resources[0].id else one for one in resources[:10]]
    assert splitter.split(hidden, "m")[0] == split_resources(resources[1:10])
    assert len(splitter._known) == 9


def test_another_model_has_other_keys(hashing):
    splitter, resources = PassageSplitter(), make_resources()
    first, second = splitter.split(resources, "m"), splitter.split(resources, "n")
    assert first[0] == second[0]
    assert not set(first[1]) & set(second[1])
