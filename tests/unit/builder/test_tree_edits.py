"""Edits of the content tree: what they cannot change stays remembered, what they do change is seen at once."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import force_setattr

from gateway.domain.principal import Principal
from gateway.domain.snapshot import Snapshot
from gateway.errors import UnknownAlias
from gateway.pipeline import PreparedRequest
from tests.support.control_plane import ANNA, ControlPlane
from tests.unit.test_pipeline import WordCounter
from tests.unit.test_resolved_scopes import BODY, Asker

FILES = {
    "contexts": {
        "house": {"default": True, "resources": {"style": {"type": "text", "data": {"content": "Write plainly."}}}},
        "news": {"resources": {"tone": {"type": "text", "data": {"content": "Be brief."}}}},
        "shop": {"resources": {"tone": {"type": "text", "data": {"content": "Be kind."}}}},
    },
    "agents": {"editor": {"contexts": ["house"]}},
}
READER, STRANGER = Principal("reader", groups=frozenset({"staff"})), Principal("stranger")
SCOPES: list[dict[str, str]] = [{}, {"agent": "editor"}, {"content": "site/blog/post"}, {"contexts": "shop"}]


class Site:
    """A stored tree, and requests about it."""

    def __init__(self, house: ControlPlane) -> None:
        self.content, self.policies, self.asker = house.content, house.policies, Asker(house.snapshot)
        counter = self.asker.pipeline.builder.counter
        assert isinstance(counter, WordCounter)
        self.counter = counter

    async def create(self, id: str, parent: str | None, **said: Any) -> None:
        await self.content.create(ANNA, {"id": id, "key": id, "parent": parent, "title": id, **said})

    async def ask(self, who: Principal = READER, /, **named: str) -> PreparedRequest:
        self.asker.snapshot = self.policies.get_snapshot("default")
        return await self.asker.ask(who, BODY, **named)

    async def count(self, work: Callable[[], Awaitable[Any]]) -> int:
        """How many texts are counted in the meantime: whatever is built anew counts the tokens of its texts."""
        before = self.counter.asked
        await work()
        return self.counter.asked - before

    async def ask_everything(self) -> None:
        for named in SCOPES:
            await self.ask(**named)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    house = await ControlPlane.start(tmp_path, FILES)
    site = Site(house)
    for id, parent in (("site", None), ("blog", "site"), ("post", "blog"), ("other", "site")):
        await site.create(id, parent)
    yield site
    await house.policies.close()


EDITS: dict[str, Callable[[Site], Awaitable[Any]]] = {
    "create": lambda site: site.create("new", "other"),
    "move": lambda site: site.content.move(ANNA, "site/other", {"key": "renamed"}),
    "rename": lambda site: site.content.replace(ANNA, "site/other", {"title": "Renamed"}),
    "delete": lambda site: site.content.delete(ANNA, "site/other"),
    "assign elsewhere": lambda site: site.content.assign(ANNA, "site/other", ["news"], None),
    "readers elsewhere": lambda site: site.content.replace(ANNA, "site/other", {"readers": ["group:new"]}),
    "title above": lambda site: site.content.replace(ANNA, "site", {"title": "Our site"}),
}


@pytest.mark.parametrize("edit", EDITS)
async def test_what_an_edit_of_the_tree_cannot_change_is_not_built_again(site: Site, edit: str) -> None:
    await site.ask_everything()
    before = site.policies.get_snapshot("default")
    await EDITS[edit](site)
    after = site.policies.get_snapshot("default")
    assert (after is not before, after.generation > before.generation) == (True, True)
    assert await site.count(site.ask_everything) == 0


async def test_the_count_would_notice_what_is_built_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await site.ask_everything()
    monkeypatch.setattr(Snapshot, "_has_policies_of", lambda self, other: False)
    await EDITS["create"](site)
    assert await site.count(site.ask_everything) > 0


async def test_edits_of_policies_lose_what_was_made_of_them(site: Site, tmp_path: Path) -> None:
    await site.ask_everything()
    changed = (tmp_path / "files.yaml").read_text().replace("Be kind.", "Be kinder.")
    (tmp_path / "files.yaml").write_text(changed)
    assert await site.policies.reload()
    assert "Be kinder." in (await site.ask(contexts="shop")).injection.stable


async def read_blocks(site: Site) -> list[str]:
    return [(await site.ask(**named)).injection.stable for named in SCOPES]


async def test_contexts_of_an_ancestor_are_seen_in_the_next_request(site: Site) -> None:
    first = await read_blocks(site)
    assert "Write plainly." in first[2]
    await site.content.assign(ANNA, "site", ["news"], None)
    second = await read_blocks(site)
    assert "Be brief." in second[2]
    assert "Write plainly." not in second[2]
    assert (second[:2], second[3]) == (first[:2], first[3])
    await site.content.assign(ANNA, "site", [], None)
    assert await read_blocks(site) == first


async def test_readers_of_an_ancestor_are_seen_in_the_next_request(site: Site) -> None:
    assert (await site.ask(STRANGER, content="post")).scope.node is not None
    await site.content.replace(ANNA, "site/blog", {"readers": ["group:staff"]})
    assert (await site.ask(READER, content="post")).scope.node is not None
    with pytest.raises(UnknownAlias):
        await site.ask(STRANGER, content="post")
    readable = (await site.ask(STRANGER, content="site/blog/post")).scope.node
    assert readable is not None
    assert readable.path == "site", "the longest prefix that the caller may read"


async def test_a_node_that_comes_or_goes_is_seen_in_the_next_request(site: Site) -> None:
    async def find(name: str) -> str:
        node = (await site.ask(content=name)).scope.node
        assert node is not None
        return node.path

    assert await find("site/blog/later") == "site/blog"
    await site.create("later", "blog")
    assert await find("site/blog/later") == "site/blog/later"
    await site.content.move(ANNA, "site/blog/later", {"parent": "other"})
    assert (await find("site/blog/later"), await find("later")) == ("site/blog", "site/other/later")
    await site.content.delete(ANNA, "later")
    with pytest.raises(UnknownAlias):
        await site.ask(content="later")


@pytest.mark.parametrize("kept", ["resolved scopes", "known scopes"])
async def test_a_scope_that_ignores_the_generation_of_the_tree_would_be_noticed(
    site: Site, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a tree whose generation never changes, the contexts of an ancestor come too late."""
    follow = Snapshot.follow

    def follow_without_tree(self: Snapshot, former: Snapshot | None, generation: int) -> Snapshot:
        following = follow(self, former, generation)
        force_setattr(following, "tree_generation", 0)
        return following

    monkeypatch.setattr(Snapshot, "follow", follow_without_tree)
    await EDITS["create"](site)
    first = await read_blocks(site)
    await site.content.assign(ANNA, "site", ["news"], None)
    if kept == "known scopes":  # only what is known of the scope is recalled, as for a caller whose key was read anew
        monkeypatch.setattr(site.asker.pipeline.__class__, "_recall", lambda *_: None)
    assert await read_blocks(site) == first
