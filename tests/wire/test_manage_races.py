"""Many clients want to change the same thing at the same moment: one of them does, the others are told."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.gateway import Client, Thread
from tests.support.management_client import manage
from tests.support.upstream import PATIENCE, Upstream
from tests.support.workspaces import OURS, Stage, running_replica, running_stage

AT_ONCE = 50
KEY = {"authorization": f"Bearer {OURS.secret('admin')}"}
KINDS = ("contexts", "profiles", "agents", "prompts", "content")


@pytest.fixture(scope="module")
def stage(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with running_stage(thread, tmp_path_factory.mktemp("races"), scripted.base_url, (OURS,)) as set_up:
        yield set_up


@pytest.fixture(scope="module")
def sibling(
    stage: Stage, thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    """Another gateway over the same store."""
    store = stage.client.app.settings.store
    with running_replica(thread, tmp_path_factory.mktemp("sibling"), scripted.base_url, (OURS,), store) as client:
        yield client


@pytest.fixture
def client(stage: Stage) -> Client:
    stage.client.thread.run(stage.client.app.policies.refresh())  # the sibling may have won the last race
    stage.restore()
    return stage.client


@pytest.fixture
def nodes(client: Client, sibling: Client, monkeypatch: pytest.MonkeyPatch) -> tuple[Client, Client]:
    """Two gateways of which neither writes before both have looked: one was so slow that its turn was over."""
    both = threading.Barrier(2)

    async def leased(key: str, owner: str, ttl: float) -> bool:
        return True

    for one in (client, sibling):
        one.thread.run(one.app.policies.refresh())
        monkeypatch.setattr(one.app.store, "lease", leased)
        monkeypatch.setattr(one.app.policies, "trial", after(both, one.app.policies.trial))
    return client, sibling


def after(both: threading.Barrier, trial: Callable[..., Any]) -> Callable[..., Any]:
    """The trial of a change, the first of which waits for another node's."""
    waited: list[bool] = []

    def tried(*arguments: Any) -> Any:
        if not waited:
            waited.append(True)
            both.wait(PATIENCE)
        return trial(*arguments)

    return tried


def body(kind: str, number: int) -> dict[str, str]:
    return {"title" if kind == "content" else "name": f"Version of client {number}"}


@pytest.mark.parametrize("kind", KINDS)
async def test_of_many_who_saw_the_same_version_one_replaces_it(client: Client, kind: str) -> None:
    path = f"/{kind}/{OURS.name()}"
    before = await manage(client, "GET", path, **KEY)
    tag = before.headers["etag"]
    answers = await asyncio.gather(
        *(manage(client, "PUT", path, body(kind, number), if_match=tag, **KEY) for number in range(AT_ONCE))
    )
    assert Counter(answer.status for answer in answers) == {200: 1, 412: AT_ONCE - 1}
    (winner,) = (answer for answer in answers if answer.status == 200)
    after = await manage(client, "GET", path, **KEY)
    assert after.json == winner.json
    assert after.json["version"] == before.json["version"] + 1


@pytest.mark.parametrize("kind", KINDS)
async def test_of_many_who_create_the_same_one_does(client: Client, kind: str) -> None:
    names = {"id": OURS.name("new"), "key": "new"} if kind == "content" else {"alias": OURS.name("new")}
    answers = await asyncio.gather(
        *(manage(client, "POST", f"/{kind}", {**body(kind, number), **names}, **KEY) for number in range(AT_ONCE))
    )
    assert Counter(answer.status for answer in answers) == {201: 1, 409: AT_ONCE - 1}
    (winner,) = (answer for answer in answers if answer.status == 201)
    assert (await manage(client, "GET", f"/{kind}/{OURS.name('new')}", **KEY)).json == winner.json


async def test_of_many_who_put_the_same_one_creates_it(client: Client) -> None:
    path = f"/agents/{OURS.name('put')}"
    answers = await asyncio.gather(
        *(manage(client, "PUT", path, body("agents", number), **KEY) for number in range(AT_ONCE))
    )
    assert Counter(answer.status for answer in answers) == {201: 1, 200: AT_ONCE - 1}
    versions = sorted(answer.json["version"] for answer in answers)
    assert versions == list(range(1, AT_ONCE + 1)), "nobody's save is lost"


async def test_of_many_who_delete_the_same_one_does(client: Client) -> None:
    path = f"/agents/{OURS.name()}"
    answers = await asyncio.gather(*(manage(client, "DELETE", path, **KEY) for _ in range(AT_ONCE)))
    assert Counter(answer.status for answer in answers) == {204: 1, 404: AT_ONCE - 1}


async def test_resources_that_are_added_at_once_are_all_there(client: Client) -> None:
    text = {"type": "text", "data": {"content": "Be brief."}}
    path = f"/contexts/{OURS.name()}/resources"
    answers = await asyncio.gather(
        *(manage(client, "POST", path, {"id": f"part-{number}", **text}, **KEY) for number in range(AT_ONCE))
    )
    assert {answer.status for answer in answers} == {201}
    listed = await manage(client, "GET", path, **KEY)
    assert {one["id"] for one in listed.json["items"]} >= {f"part-{number}" for number in range(AT_ONCE)}


@pytest.mark.parametrize(("condition", "refusal"), [(True, 412), (False, 409)], ids=["tag", "no tag"])
@pytest.mark.parametrize("kind", KINDS)
async def test_of_two_nodes_that_saw_the_same_version_one_replaces_it(
    nodes: tuple[Client, Client], kind: str, condition: bool, refusal: int
) -> None:
    path = f"/{kind}/{OURS.name()}"
    before = await manage(nodes[0], "GET", path, **KEY)
    tag = {"if_match": before.headers["etag"]} if condition else {}
    sent = (manage(node, "PUT", path, body(kind, number), **tag, **KEY) for number, node in enumerate(nodes))
    answers = await asyncio.gather(*sent)
    assert Counter(answer.status for answer in answers) == {200: 1, refusal: 1}


@pytest.mark.parametrize("kind", KINDS)
async def test_of_two_nodes_that_saw_nothing_one_creates_it(nodes: tuple[Client, Client], kind: str) -> None:
    names = {"id": OURS.name("new"), "key": "new"} if kind == "content" else {"alias": OURS.name("new")}
    bodies = [{**body(kind, number), **names} for number in range(2)]
    sent = (manage(node, "POST", f"/{kind}", one, **KEY) for node, one in zip(nodes, bodies, strict=True))
    answers = await asyncio.gather(*sent)
    assert Counter(answer.status for answer in answers) == {201: 1, 409: 1}
