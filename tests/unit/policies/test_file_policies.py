from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.domain.agent import Budget, Expansion, Placement, SelectionSettings, Thresholds
from gateway.domain.resource import Mode, ResourceKind
from gateway.domain.snapshot import Snapshot
from gateway.errors import Faults
from gateway.policies.file_policies import load_policies
from gateway.resources.registry import load_registry


class FakeMaterials:
    """Documents are read as they are; links have the copies that a test gives."""

    def __init__(self, **copies: str) -> None:
        self.copies = copies
        self.asked: list[str] = []

    def file(self, path: Path) -> str:
        try:
            return path.read_text()
        except FileNotFoundError:
            raise ValueError(f"there is no file {path.name}") from None

    def link(self, url: str) -> str | None:
        self.asked.append(url)
        return self.copies.get(url.rsplit("/")[-1])


class Folder:
    """A directory of policy files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, text: str, name: str = "a.yaml") -> None:
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text(text)

    def load(self, **copies: str) -> Snapshot:
        return load_policies(self.path, load_registry(), FakeMaterials(**copies), 1)

    def faults(self) -> list[str]:
        with pytest.raises(Faults) as caught:
            self.load()
        return [str(fault).removeprefix(f"{self.path}/") for fault in caught.value.faults]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_an_empty_directory_is_an_empty_snapshot(folder: Folder) -> None:
    snapshot = folder.load()
    assert (snapshot.contexts, snapshot.agents, snapshot.default, snapshot.mandatory) == ({}, {}, None, ())
    assert len(snapshot.hash) == 64


def test_a_missing_directory_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(Faults, match="the policy directory does not exist"):
        load_policies(tmp_path / "nowhere", load_registry(), FakeMaterials(), 1)


def test_a_resource_gets_its_defaults_from_its_mode_and_type(folder: Folder) -> None:
    folder.write(
        "contexts:\n"
        "  corporate:\n"
        "    resources:\n"
        "      voice: {type: brand-voice, data: {tone: Calm}}\n"
        "      style-guide: {type: text, mode: on_demand, data: {content: Hello}}\n"
        "      other: {type: brand-voice, key: mine, kind: reference, languages: no, data: {tone: Loud}}\n"
    )
    resources = folder.load().resources
    voice, guide, other = (resources[f"corporate/{name}"] for name in ("voice", "style-guide", "other"))
    assert (voice.mode, voice.kind, voice.conflict_key, voice.text) == (
        Mode.ALWAYS,
        ResourceKind.RULE,
        "voice",
        "Tone: Calm",
    )
    assert (guide.kind, guide.name, guide.conflict_key, guide.priority) == (
        ResourceKind.REFERENCE,
        "Style guide",
        None,
        100,
    )
    assert guide.truncate == "extractive"
    assert (other.kind, other.conflict_key, other.languages) == (ResourceKind.REFERENCE, "mine", ("no",))


def test_agents_profiles_and_prompts_are_compiled(folder: Folder) -> None:
    folder.write(
        "contexts: {a: {}, b: {}}\n"
        "profiles: {calm: {contexts: a, temperature: 0.2, budget: 500}, wide: {budget: {total: 1, max: 9}}}\n"
        "agents:\n"
        "  one: {profile: calm, contexts: [b, a], model: gpt-4o, budget: 300, placement: turn_user,\n"
        "        selection: {preset: normal, top_n: 3}, max_turns: 2, inject: false}\n"
        "  two: {budget: {total: 10, max: 20}}\n"
        "prompts: {meta: {template: 'For {content}', contexts: b}}\n"
    )
    snapshot = folder.load()
    one, two = snapshot.agents["one"], snapshot.agents["two"]
    assert (one.contexts, one.profile, one.defaults.model, one.inject) == (("b", "a"), "calm", "gpt-4o", False)
    assert (one.placement, one.selection) == (Placement.TURN_USER, SelectionSettings("normal", Thresholds(top_n=3)))
    assert (one.budget, two.budget) == (Budget(300, 300), Budget(10, 20))
    assert (two.name, two.inject, two.max_turns) == ("Two", None, None)
    assert (snapshot.profiles["calm"].budget, snapshot.profiles["wide"].budget) == (Budget(500, None), Budget(1, 9))
    assert snapshot.profiles["calm"].contexts == ("a",)
    assert (snapshot.prompts["meta"].template, snapshot.prompts["meta"].contexts) == ("For {content}", ("b",))


def test_the_content_tree_is_kept_by_path_and_id(folder: Folder) -> None:
    folder.write(
        "contexts: {a: {}}\n"
        "content:\n"
        "  site:\n"
        "    title: The site\n"
        "    children:\n"
        "      blog: {id: '7', contexts: a, inherit: merge, readers: group:staff, children: {post-1.html: }}\n"
        "      about_us:\n"
    )
    snapshot = folder.load()
    assert list(snapshot.tree.nodes) == ["site", "site/blog", "site/blog/post-1.html", "site/about_us"]
    blog = snapshot.tree.nodes["site/blog"]
    assert (blog.id, blog.parent, blog.merge, blog.readers, blog.type) == ("7", "site", True, ("group:staff",), "page")
    assert snapshot.tree.ids["7"] == "site/blog"
    assert snapshot.tree.nodes["site/about_us"].title == "About us"
    post = snapshot.tree.nodes["site/blog/post-1.html"]
    assert [node.path for node in snapshot.tree.list_ancestry(post)] == ["site/blog/post-1.html", "site/blog", "site"]


def test_default_and_mandatory_contexts_are_named(folder: Folder) -> None:
    folder.write("contexts: {b: {mandatory: true}, a: {mandatory: true}, c: {default: true}}\n")
    snapshot = folder.load()
    assert (snapshot.default, snapshot.mandatory) == ("c", ("b", "a"))


def test_files_are_one_set_read_in_sorted_order(folder: Folder) -> None:
    folder.write("agents: {x: {contexts: late}}", "a.yml")
    folder.write("contexts: {late: {}}", "sub/z.yaml")
    folder.write("contexts: {early: {}}", "b.yaml")
    folder.write("nonsense", "notes.txt")
    folder.write("nonsense", ".hidden.yaml")
    folder.write("nonsense", "..data/b.yaml")
    assert list(folder.load().contexts) == ["early", "late"]


def test_all_faults_of_all_files_come_at_once(folder: Folder) -> None:
    folder.write("contexts:\n  corp: {default: true}\ncontent: {a: {id: '7'}, b: {}}\n")
    folder.write(
        "contexts:\n"
        "  corp: {}\n"
        "  Bad: {defalt: true}\n"
        "  global: {}\n"
        "  other: {default: true}\n"
        "  more:\n"
        "    resources:\n"
        "      order: {type: brand-voic}\n"
        "      x: {typ: text, mode: sometimes}\n"
        "      y: {type: text, data: {content: 3, z: 1}}\n"
        "      z: {type: text}\n"
        "agents:\n"
        "  versions: {}\n"
        "  one: {profile: nope, contexts: [crp, other], model: 'agent:x', temperature: hot}\n"
        "prompts:\n"
        "  m: {template: '{bad}'}\n"
        "content:\n"
        "  q: {id: b, children: {R: {}, s: {id: '7', inherit: never}}}\n"
        "  t: {contexts: crop, children: [1]}\n"
        "agent: {}\n",
        "b.yaml",
    )
    assert folder.faults() == [
        "b.yaml:2: contexts.corp: 'corp' is already defined in a.yaml:2",
        "b.yaml:3: contexts.Bad: an alias is 1 to 64 lower-case letters, digits and hyphens, "
        "and begins with a letter or digit",
        "b.yaml:3: contexts.Bad.defalt: is not a known key; did you mean 'default'?",
        "b.yaml:4: contexts.global: 'global' is reserved; choose another alias",
        "b.yaml:5: contexts.other.default: 'corp' is already the global default; there can be only one",
        "b.yaml:8: contexts.more.resources.order: 'order' is reserved; choose another alias",
        "b.yaml:8: contexts.more.resources.order.type: there is no resource type 'brand-voic'; "
        "did you mean 'brand-voice'?",
        "b.yaml:9: contexts.more.resources.x.type: is required",
        "b.yaml:9: contexts.more.resources.x.mode: input should be 'always', 'semantic', 'on_demand' or 'manual'",
        "b.yaml:9: contexts.more.resources.x.typ: is not a known key; did you mean 'type'?",
        "b.yaml:10: contexts.more.resources.y.data.content: input should be a valid string",
        "b.yaml:10: contexts.more.resources.y.data.z: is not a known key",
        "b.yaml:11: contexts.more.resources.z.data.content: is required",
        "b.yaml:13: agents.versions: 'versions' is reserved; choose another alias",
        "b.yaml:14: agents.one.model: must be a model of an upstream, not another agent",
        "b.yaml:14: agents.one.temperature: input should be a valid number",
        "b.yaml:14: agents.one.contexts.0: there is no context 'crp'; did you mean 'corp'?",
        "b.yaml:14: agents.one.profile: there is no profile 'nope'",
        "b.yaml:16: prompts.m.template: {bad} is not a placeholder; use {input}, {content}, {context} or {vars.NAME}",
        "b.yaml:18: content.q.children.R: a node's key is 1 to 64 lower-case letters, digits, hyphens, "
        "underscores and dots",
        "b.yaml:18: content.q.children.s.inherit: input should be 'merge' or 'nearest'",
        "b.yaml:18: content.q.id: 'b' is the path of another node",
        "b.yaml:19: content.t.children: must be a mapping",
        "b.yaml:19: content.t.contexts: there is no context 'crop'; did you mean 'corp'?",
        "b.yaml:20: agent: is not a known key; did you mean 'agents'?",
    ]


def test_two_nodes_of_one_id_or_an_id_that_is_a_later_path_are_faults(folder: Folder) -> None:
    folder.write("content:\n  a: {id: '7'}\n  b: {id: '7'}\n  c: {id: d}\n  d:\n")
    assert folder.faults() == [
        "a.yaml:3: content.b.id: '7' is already the id of a",
        "a.yaml:4: content.c.id: 'd' is the path of another node",
    ]


@pytest.mark.parametrize("text", ["", " \n\n"])
def test_an_empty_file_is_a_fault_since_somebody_may_still_write_it(folder: Folder, text: str) -> None:
    folder.write("contexts: {}\n", "b.yaml")
    folder.write(text)
    assert folder.faults() == ["a.yaml:1: (file): is empty; if nothing belongs in it, delete it or write a comment"]
    folder.write("# Nothing yet.\n")
    assert folder.load().contexts == {}


def test_one_broken_file_does_not_hide_the_faults_of_another(folder: Folder) -> None:
    folder.write("contexts: {a: [}", "a.yaml")
    folder.write("agents: {x: {profile: y}}", "b.yaml")
    assert [fault.split(":")[0] for fault in folder.faults()] == ["a.yaml", "b.yaml"]


DOCUMENT = "contexts: {c: {resources: {d: {type: document, data: {path: %s}}}}}"


def test_a_document_lies_beside_the_policy_that_names_it(folder: Folder) -> None:
    folder.write(DOCUMENT % "../docs/x.md", "sub/a.yaml")
    folder.write("The text", "docs/x.md")
    assert folder.load().resources["c/d"].text == "The text"


@pytest.mark.parametrize(
    "path", ["/etc/hostname", "../outside.md", "sub/../../outside.md", "link.md", "out/outside.md"]
)
def test_a_document_outside_the_policy_directory_is_refused(folder: Folder, path: str) -> None:
    inside = folder.path / "policies"
    folder.write(DOCUMENT % path, "policies/a.yaml")
    folder.write("secret", "outside.md")
    (inside / "link.md").symlink_to("../outside.md")
    (inside / "out").symlink_to("..")
    with pytest.raises(Faults, match=r"contexts\.c\.resources\.d\.data: .*(outside|must be relative)"):
        load_policies(inside, load_registry(), FakeMaterials(), 1)


def test_a_missing_document_is_a_fault_at_its_resource(folder: Folder) -> None:
    folder.write(DOCUMENT % "x.md")
    assert folder.faults() == ["a.yaml:1: contexts.c.resources.d.data: there is no file x.md"]


LINK = "contexts: {c: {resources: {l: {type: external-link, data: {url: 'https://example.com/page'}}}}}"


def test_a_link_that_was_never_fetched_has_no_text(folder: Folder) -> None:
    folder.write(LINK)
    assert folder.load().resources["c/l"].text is None
    assert folder.load(page="Copy").resources["c/l"].text == "Copy"


def test_the_hash_is_about_what_policies_say_not_how(folder: Folder) -> None:
    folder.write("contexts: {a: {resources: {x: {type: text, data: {content: Hi}}}}, b: {}}\ncontent: {n: {}, m: {}}\n")
    before = folder.load().hash
    folder.write("# moved\ncontent:\n  m: {}\n", "1.yaml")
    folder.write("contexts: {b: {}}\ncontent:\n  n: {}\n", "2.yaml")
    folder.write("contexts:\n  a:\n    resources:\n      x:\n        data: {content: 'Hi'}\n        type: text\n")
    assert folder.load().hash == before


@pytest.mark.parametrize("changed", ["{y: B, x: A}", "{x: A, y: C}", "{x: A, z: B}", "{x: A}"])
def test_the_hash_changes_with_order_text_and_names(folder: Folder, changed: str) -> None:
    glossary = "contexts: {a: {resources: {g: {type: glossary, data: {terms: %s}}}}}"
    folder.write(glossary % "{x: A, y: B}")
    before = folder.load().hash
    folder.write(glossary % changed)
    assert folder.load().hash != before


def test_the_hash_changes_with_the_order_of_resources(folder: Folder) -> None:
    context = "contexts: {a: {resources: {%s: {type: text, data: {content: T}}, %s: {type: text, data: {content: T}}}}}"
    folder.write(context % ("x", "y"))
    before = folder.load().hash
    folder.write(context % ("y", "x"))
    assert folder.load().hash != before


def test_the_hash_stays_the_same_from_release_to_release(folder: Folder) -> None:
    """Replicas of two releases compare it while one replaces the other."""
    folder.write(
        "contexts: {a: {resources: {v: {type: brand-voice, data: {tone: Calm}}}}}\n"
        "agents: {x: {contexts: a, budget: 5}}\ncontent: {n: {contexts: a}}\n"
    )
    assert folder.load().hash == "ae0c881807bbd70debb4689f8c7341d3108629c625f4d06302535ffb3c05b967"


def test_the_hash_covers_the_tree_and_not_what_its_nodes_say(folder: Folder) -> None:
    hashes = []
    for node in ("{}", "{body: Text, properties: {status: open}, links: [n]}", "{title: Other}", "{readers: group:a}"):
        folder.write(f"content: {{n: {node}}}")
        hashes.append(folder.load().hash)
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def test_the_hash_tells_sticky_agents_from_others(folder: Folder) -> None:
    hashes = set()
    for selection in ("{}", "{sticky: true}", "{sticky: false}"):
        folder.write(f"agents: {{x: {{contexts: [], selection: {selection}}}}}")
        hashes.add(folder.load().hash)
    assert len(hashes) == 3


def test_the_hash_follows_documents_but_not_links(folder: Folder) -> None:
    folder.write(LINK)
    assert folder.load().hash == folder.load(page="Copy").hash
    folder.write(DOCUMENT % "x.md", "a.yaml")
    folder.write("One", "x.md")
    before = folder.load().hash
    folder.write("Two", "x.md")
    assert folder.load().hash != before


def test_a_directory_that_cannot_be_listed_is_a_fault(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(
        *_args: object, onerror: Callable[[OSError], None], **_options: object
    ) -> Iterator[tuple[str, list[str], list[str]]]:
        onerror(PermissionError(13, "Permission denied", str(folder.path / "locked")))
        yield from ()

    monkeypatch.setattr("gateway.policies.files.os.walk", refuse)
    assert folder.faults() == ["locked:1: (file): cannot be read: Permission denied"]


def test_a_link_back_up_does_not_loop(folder: Folder) -> None:
    folder.write("contexts: {a: {}}", "sub/a.yaml")
    (folder.path / "sub" / "up").symlink_to("..")
    assert list(folder.load().contexts) == ["a"]


def test_folders_of_a_mounted_configmap_are_read_through_their_links(folder: Folder) -> None:
    folder.write("contexts: {a: {resources: {d: {type: document, data: {path: guide.md}}}}}", "..v1/sub/a.yaml")
    folder.write("The guide", "..v1/sub/guide.md")
    (folder.path / "..data").symlink_to("..v1")
    (folder.path / "sub").symlink_to("..data/sub")
    assert folder.load().resources["a/d"].text == "The guide"


def test_the_hash_changes_with_fields_that_came_later(folder: Folder) -> None:
    agent = "agents: {x: {contexts: [], %s}}"
    hashes = set()
    for field in ("inject: true", "retain: session", "retain: false", "tool_permission: deny"):
        folder.write(agent % field)
        hashes.add(folder.load().hash)
    for selection in ("{}", "{enabled: false}", "{expansion: {depth: 1}}", "{expansion: {depth: 2}}"):
        folder.write(agent % f"selection: {selection}")
        hashes.add(folder.load().hash)
    assert len(hashes) == 8


def test_an_agent_says_how_far_its_picks_lead_and_what_it_keeps(folder: Folder) -> None:
    folder.write(
        "agents:\n  one: {selection: {enabled: false, expansion: {depth: 2, top_n: 4}}, retain: session,\n"
        "        tool_permission: approve}\n  two: {retain: false}\n"
    )
    one, two = folder.load().agents.values()
    assert (one.selection.enabled, one.selection.expansion) == (False, Expansion(2, None, 4))
    assert (one.retain, one.tool_permission, two.retain, two.tool_permission) == (True, "approve", False, None)
    folder.write(
        "agents:\n  one: {selection: {expansion: {depth: 4}}}\n  two: {retain: maybe}\n  three: {tool_permission: no}\n"
    )
    assert len(folder.faults()) == 3
