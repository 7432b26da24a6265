"""The example policies say what the README and the wire tests count on."""

from pathlib import Path

import pytest

from gateway.domain.resource import Mode
from gateway.domain.snapshot import Snapshot
from gateway.policies.file_policies import load_policies
from gateway.resources.registry import load_registry
from gateway.settings_loader import find_example_policies


class Files:
    def file(self, path: Path) -> str:
        return path.read_text()

    def link(self, url: str) -> str | None:
        raise AssertionError("the example must not need the network")


@pytest.fixture(scope="module")
def example() -> Snapshot:
    directory = find_example_policies()
    assert directory is not None
    return load_policies(directory, load_registry(), Files(), 1)


def test_it_has_two_sites_a_story_and_three_agents_one_of_which_takes_no_part(example: Snapshot) -> None:
    assert [node.path for node in example.tree.nodes.values() if node.parent is None] == ["halden", "lumo", "harbour"]
    assert list(example.agents) == ["seo-writer", "support", "code-helper"]
    helper = example.agents["code-helper"]
    assert (helper.contexts, helper.profile, helper.inject) == ((), None, None)


def test_the_blog_overrides_only_the_tone(example: Snapshot) -> None:
    assert example.tree.nodes["halden/blog"].merge
    voice = example.resources["halden-blog/voice"]
    assert voice.data.model_dump(exclude_none=True).keys() == {"tone"}
    assert example.resources["halden-voice/voice"].conflict_key == voice.conflict_key == "voice"


def test_every_mode_and_a_language_are_shown(example: Snapshot) -> None:
    resources = example.resources.values()
    assert {resource.mode for resource in resources} == set(Mode)
    assert [resource.id for resource in resources if resource.languages] == ["halden-voice/anrede"]
    assert (example.resources["halden-voice/style-guide"].text or "").startswith("# Halden style guide")


def test_what_a_catalogue_lists_is_described_and_named_uniquely(example: Snapshot) -> None:
    listed = [resource for resource in example.resources.values() if resource.mode is not Mode.ALWAYS]
    assert all(resource.description for resource in listed)
    assert len({resource.name for resource in listed}) == len(listed)


def test_links_between_nodes_lead_somewhere(example: Snapshot) -> None:
    for node in example.tree.nodes.values():
        assert all(example.tree.find(link.target) for link in example.contents[node.id].links)


def test_nothing_applies_to_every_request(example: Snapshot) -> None:
    assert (example.default, example.mandatory) == ("halden-voice", ())
