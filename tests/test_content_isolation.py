"""Nobody sees a node or resource that it may not read, by any path; what is forbidden changes nothing for anybody."""

from pathlib import Path

import pytest

from gateway.app import Gateway
from gateway.domain.node_tree import NodeTree
from gateway.domain.search import NodeQuery
from gateway.errors import GatewayError
from scripts.isolation_check.campaign import IsolationCampaign, opened
from scripts.isolation_check.world import build_world

CHECKS = 10_000  # scripts.isolation_check makes 100,000


async def test_random_callers_see_what_the_oracle_allows(tmp_path: Path) -> None:
    world = build_world(7)
    async with opened(world, tmp_path / "policies") as gateway:
        done = await IsolationCampaign(gateway, world).run(CHECKS)
    assert done.leaks == []
    assert done.seen > 500
    assert done.kinds >= {"resource", "body", "title", "entity", "property", "passage"}


async def test_the_check_notices_a_missing_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeTree, "may_read", lambda *_: True)
    world = build_world(7)
    async with opened(world, tmp_path / "policies") as gateway:
        done = await IsolationCampaign(gateway, world).run(CHECKS)
    assert {leak.split()[0] for leak in done.leaks} >= {"injection", "resolve", "get", "list"}


@pytest.mark.parametrize(
    ("filter", "kind"),
    [("gateway.knowledge.entity_index.may_read", "entity"), ("gateway.collectors.contexts.may_read", "passage")],
)
async def test_the_check_notices_a_missing_filter_of_entities_and_retrievers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filter: str, kind: str
) -> None:
    monkeypatch.setattr(filter, lambda *_: True)
    world = build_world(7)
    async with opened(world, tmp_path / "policies") as gateway:
        done = await IsolationCampaign(gateway, world).run(CHECKS)
    assert any(kind in leak for leak in done.leaks)


async def find_by_meaning(gateway: Gateway) -> bool:
    """Whether nodes are found by their meaning."""
    library = gateway.pipeline.library
    assert library is not None
    assert library.finder is not None
    snapshot = gateway.policies.get_snapshot("default")
    query = NodeQuery((), meant=("A lamp shines and says what?",), seconds=10.0)
    found = await library.finder.find("default", snapshot, frozenset(), query, 100)
    return any(one.by_meaning for one in found.matches)


async def test_a_thousand_forbidden_nodes_change_nothing_in_a_request(tmp_path: Path) -> None:
    bodies: list[list[bytes]] = []
    for number, forbidden in enumerate((0, 1000)):
        world = build_world(3, forbidden=forbidden)
        async with opened(world, tmp_path / f"policies{number}") as gateway:
            campaign = IsolationCampaign(gateway, world)
            sent = []
            for caller in world.callers[:4]:
                for path in world.paths[:8]:
                    prepared = await campaign.prepare(caller, {"content": path})
                    sent.append(b"" if isinstance(prepared, GatewayError) else prepared[1].body)
            bodies.append(sent)
            assert await find_by_meaning(gateway), "vectors were compared"
    assert any(bodies[0])
    assert bodies[0] == bodies[1]


async def test_forbidden_nodes_do_not_change_by_meaning_what_others_find(tmp_path: Path) -> None:
    found = []
    for number, forbidden in enumerate((0, 1000)):
        world = build_world(3, forbidden=forbidden)
        async with opened(world, tmp_path / f"policies{number}") as gateway:
            library = gateway.pipeline.library
            assert library is not None
            assert library.finder is not None
            snapshot = gateway.policies.get_snapshot("default")
            query = NodeQuery((), meant=("A lamp shines and says hidden1x3",), seconds=10.0)
            for caller in world.callers:
                found.append(await library.finder.find("default", snapshot, frozenset(caller.identities), query, 30))
    half = len(found) // 2
    assert any(one.matches for one in found)
    assert found[:half] == found[half:]
