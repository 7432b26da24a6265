"""What one gateway exports, another imports: the same requests go upstream, byte by byte."""

import random
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.gateway import Client, Thread, running_gateway
from tests.support.knowledge_graph import KNOWLEDGE
from tests.support.management_client import manage
from tests.support.upstream import Upstream, say

EXAMPLES = Path(__file__).resolve().parents[2] / "policies"
YAML = "application/yaml"
MODIFIED = re.compile(rb"(, |\\n)modified \d{4}-\d\d-\d\d")  # of nodes that are stored; those of files have no date


class Pair:
    """A gateway that has policy files, and one that has none."""

    def __init__(self, files: Client, empty: Client, upstream: Upstream) -> None:
        self.files, self.empty, self.upstream = files, empty, upstream

    async def carry(self, form: str) -> None:
        """From one to the other."""
        exported = await manage(self.files, "GET", f"/export?format={form}")
        assert exported.status == 200
        assert exported.headers["content-type"] == f"application/{form}"
        taken = await manage(self.empty, "POST", "/import", exported.raw, content_type=f"application/{form}")
        assert taken.status == 200, taken.raw
        assert {item["action"] for item in taken.json["items"]} == {"create"}

    async def same(self, **said: Any) -> bytes:
        """What goes upstream from both, which has to be the same."""
        self.upstream.will(say("Done."), say("Done."))
        replies = [await client.chat(**said) for client in (self.files, self.empty)]
        assert [reply.status for reply in replies] == [200, 200], replies[0].raw
        first, second = self.upstream.bodies[-2:]
        assert first == MODIFIED.sub(b"", second)
        heads = [reply.headers["x-context-snapshot"] for reply in replies]
        assert heads[0] == heads[1]
        tokens = [(reply.headers["x-context-tokens"], reply.headers["x-context-injected"]) for reply in replies]
        if first == second:
            assert tokens[0] == tokens[1]
        return first


@pytest.fixture
def pair(thread: Thread, upstream: Upstream, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pair]:
    with ExitStack() as stack:
        policies = getattr(request, "param", None)
        if policies is None:
            shutil.copytree(EXAMPLES, tmp_path / "files" / "policies")

        def started(name: str, policies: dict[str, Any] | None) -> Client:
            made = running_gateway(thread, tmp_path / name, upstream.base_url, policies or {})
            return stack.enter_context(made)

        yield Pair(started("files", policies), started("empty", None), upstream)


@pytest.mark.parametrize("form", ["yaml", "json"])
async def test_the_example_policies_work_the_same_elsewhere(pair: Pair, form: str) -> None:
    await pair.carry(form)
    agents = ["seo-writer", "support", "code-helper", None]
    nodes = ["1042", "halden/blog/welded-cells", "lumo/help", "lumo/shop/glow", None]
    bodies = set()
    for agent in agents:
        for node in nodes:
            context = {"content": node} if node else {}
            bodies.add(await pair.same(asked="Write about it", agent=agent, context=context))
    bodies.add(await pair.same(context={"prompt": "meta-description", "content": "1042"}))
    assert len(bodies) > 10  # they do differ from each other


async def test_the_import_is_idempotent(pair: Pair) -> None:
    await pair.carry("yaml")
    for client in (pair.files, pair.empty):
        bundle = await manage(client, "GET", "/export?format=json")
        again = await manage(client, "POST", "/import?mode=replace", bundle.raw)
        assert {item["action"] for item in again.json["items"]} == {"unchanged"}


@pytest.mark.parametrize("pair", [{"agents": {"writer": {"inject": True}}, "knowledge": KNOWLEDGE}], indirect=True)
@pytest.mark.parametrize("form", ["yaml", "json"])
async def test_what_is_known_works_the_same_elsewhere(pair: Pair, form: str) -> None:
    await pair.carry(form)
    body = await pair.same(asked="Which limit does the orders endpoint accept?", agent="writer")
    assert b"Every list endpoint pages with a limit." in body
    bundles = [await manage(client, "GET", "/export?format=json") for client in (pair.files, pair.empty)]
    assert bundles[0].raw == bundles[1].raw
    refused = await manage(
        pair.files, "POST", "/import", {"knowledge": {"axioms": {"prices": {"types": ["X"], "text": "."}}}}
    )
    assert (refused.status, refused.json["code"]) == (409, "conflict")
    assert [one["pointer"] for one in refused.json["errors"]] == ["/knowledge/axioms/prices"]


async def test_a_dry_run_changes_nothing_and_tells_everything(pair: Pair) -> None:
    exported = await manage(pair.files, "GET", "/export")
    tried = await manage(pair.empty, "POST", "/import?dry_run=true", exported.raw, content_type=YAML)
    assert (tried.status, tried.json["dry_run"], tried.json["snapshot"]) == (200, True, None)
    assert len(tried.json["items"]) == tried.json["total"] > 20
    assert (await manage(pair.empty, "GET", "/contexts")).json["total"] == 0


async def test_a_fault_anywhere_imports_nothing(pair: Pair) -> None:
    bundle = orjson.loads((await manage(pair.files, "GET", "/export?format=json")).raw)
    bundle["agents"]["support"]["contexts"].append("lumo-vioce")
    refused = await manage(pair.empty, "POST", "/import", bundle)
    assert (refused.status, refused.headers["content-type"]) == (422, "application/problem+json")
    [fault] = refused.json["errors"]
    assert fault["pointer"] == "/agents/support/contexts/2"
    assert "lumo-voice" in fault["message"]
    assert (await manage(pair.empty, "GET", "/audit")).json["total"] == 0


async def test_what_files_own_is_adopted_by_an_import_and_can_be_released(pair: Pair) -> None:
    tried = await manage(pair.files, "POST", "/import?dry_run=true", {"agents": {"support": {}}})
    assert [one["action"] for one in tried.json["items"]] == ["adopt"]
    before = pair.files.app.policies.current.hash
    taken = await manage(pair.files, "POST", "/import", {"agents": {"support": {}}})
    assert (taken.status, taken.json["snapshot"] == before[:12]) == (200, False)
    released = await manage(pair.files, "POST", "/release", {})
    assert (released.json["total"], released.json["snapshot"]) == (1, before[:12])


@pytest.mark.parametrize(
    "text",
    [
        "a: &x 1\n",
        "contexts: {a: *x}\n",
        "contexts: !!set {}\n",
        "contexts: {a: {}, a: {}}\n",
        "a\n---\nb\n",
        "[",
        "\xff",
    ],
)
async def test_yaml_that_could_surprise_is_refused(pair: Pair, text: str) -> None:
    refused = await manage(pair.empty, "POST", "/import", text.encode("latin-1"), content_type=YAML)
    assert (refused.status, refused.json["code"]) == (422, "invalid")


@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_other_media_types_are_refused(pair: Pair, media: str) -> None:
    assert (await manage(pair.empty, "POST", "/import", b"{}", content_type=media)).status == 415


def generated(seed: int) -> dict[str, Any]:
    """Policies with awkward texts, in any order."""
    rolls = random.Random(seed)
    texts = [
        "no",
        "1e3",
        "2024-01-01",
        " leads",
        "trails ",
        "two\nlines\n",
        "tab\there",
        "😀 \u2028 \x85 end",
        "a: b # c",
        "'",
    ]

    def resource() -> dict[str, Any]:
        mode = rolls.choice(["always", "on_demand"])
        return {"type": "text", "name": rolls.choice(texts).strip() or "x", "mode": mode} | {
            "data": {"content": "".join(rolls.sample(texts, 3))},
            "priority": rolls.randint(0, 200),
        }

    aliases = rolls.sample([f"c{number}" for number in range(30)], 6)
    contexts = {
        alias: {
            "mandatory": rolls.random() < 0.4,
            "resources": {f"r{n}": resource() for n in rolls.sample(range(9), 3)},
        }
        for alias in aliases
    }
    agents = {f"a{n}": {"contexts": rolls.sample(aliases, 2), "instructions": rolls.choice(texts)} for n in range(3)}

    def node() -> dict[str, Any]:
        return {"contexts": rolls.sample(aliases, 1), "body": rolls.choice(texts), "inherit": "merge"}

    tree = {"root": node() | {"id": "top", "children": {"z": node(), "a": {"children": {"deep": node()}}}}}
    return {"contexts": contexts, "agents": agents, "content": tree}


@pytest.mark.parametrize("pair", [generated(seed) for seed in range(4)], indirect=True, ids=range(4))
async def test_generated_policies_work_the_same_elsewhere(pair: Pair) -> None:
    await pair.carry("yaml")
    for agent in ("a0", "a1", "a2", None):
        for node in ("top", "root/a/deep", "root/z", None):
            await pair.same(asked="What now?", agent=agent, context={"content": node} if node else {})
