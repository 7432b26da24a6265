"""Workspaces with the same aliases and different texts: whatever a caller asks for, only what it may read comes out.

Everything has a token of its own in its text, so that an oracle that knows only what was stored can tell what may
stand in an answer.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
import pytest_asyncio
from msgspec.structs import replace
from starlette.requests import Request

from gateway.app import Gateway
from gateway.domain.exchange import Exchange
from gateway.domain.principal import Principal, Role
from gateway.domain.record import Author, RecordKey, RecordWrite
from gateway.domain.snapshot import Snapshot
from gateway.edge.access import Caller
from gateway.edge.models import ModelsEndpoint
from gateway.edge.request import RequestHead
from gateway.errors import GatewayError
from gateway.injection.neutral import neutralize
from gateway.injection.tools import make_own_tools
from gateway.preview import preview_request
from gateway.retrieval.tool_runner import ToolRunner
from gateway.settings import Settings
from tests.support.yaml_texts import to_yaml

ROUNDS = 1200
TOKEN = re.compile(r"q[sabcd][a-z]\d+q")
GROUPS = ("red", "blue")
READERS: tuple[tuple[str, ...], ...] = (
    (),
    (),
    (),
    ("group:red",),
    ("group:blue",),
    ("group:red", "group:blue"),
    ("key:anna",),
    ("user:anna", "group:anna"),
    ("key:red", "group:anna"),
    ("user:blue",),
)
MODES = ("always", "always", "on_demand", "semantic", "manual")
EMPTY = "d"  # stores nothing: it has what the files say

Sections = dict[str, dict[str, Any]]


@dataclass
class Oracle:
    """Who may see which token, by what was written down when it was made."""

    readers: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)  # every list that has to let a caller pass
    always: dict[tuple[str, str], set[str]] = field(default_factory=dict)  # (workspace, context) → tokens

    def made(self, workspace: str, kind: str, *lists: tuple[str, ...]) -> str:
        token = f"q{workspace}{kind}{len(self.readers)}q"
        self.readers[token] = list(lists)
        return token

    def may_see(self, caller: Principal, token: str) -> bool:
        if token[1] not in ("s", caller.workspace):
            return False
        mine = {f"key:{caller.name}", *(f"group:{group}" for group in caller.groups)}
        groups = {name for one in self.readers[token] for name in one if name.startswith("group:")}
        mine |= groups if "*" in caller.groups else set()
        return all(not one or mine & {*one} for one in self.readers[token])

    def visible(self, caller: Principal) -> set[str]:
        return {token for token in self.readers if self.may_see(caller, token)}


def world(workspace: str, oracle: Oracle, dice: Random, prefix: str = "") -> Sections:
    """Contexts, agents and nodes of a workspace; all of them use the same aliases."""
    sections: Sections = {"contexts": {}, "agents": {}, "content": {}}
    for number in range(6):
        alias = f"{prefix}context-{number}"
        sections["contexts"][alias] = {"resources": resources(workspace, alias, oracle, dice)}
    names = list(sections["contexts"])
    for number in range(6):
        told = oracle.made(workspace, "a")
        chosen = dice.sample(names, 2)
        sections["agents"][f"{prefix}agent-{number}"] = {"contexts": chosen, "instructions": f"Say {told}."}
    sections["agents"][oracle.made(workspace, "a")] = {"contexts": names[:1]}
    for number in range(4):
        readers = dice.choice(READERS)
        sections["content"][f"{prefix}node-{number}"] = {
            "title": oracle.made(workspace, "n", readers),
            "contexts": [dice.choice(names)],
            "readers": list(readers),
        }
    return sections


def resources(workspace: str, context: str, oracle: Oracle, dice: Random) -> dict[str, Any]:
    made: dict[str, Any] = {}
    always = oracle.always[workspace, context] = set()
    for number in range(4):
        readers, mode = dice.choice(READERS), dice.choice(MODES)
        token = oracle.made(workspace, "r", readers)
        if mode == "always":
            always.add(token)
        made[f"part-{number}"] = {
            "type": "text",
            "name": token,
            "mode": mode,
            "description": f"About {token}",
            "readers": list(readers),
            "data": {"content": f"The word is {token}."},
        }
    return made


@dataclass
class House:
    """A gateway with all worlds, and what the oracle knows of them."""

    gateway: Gateway
    oracle: Oracle
    sections: dict[str, Sections]
    models: ModelsEndpoint

    def snapshot(self, workspace: str) -> Snapshot:
        return self.gateway.policies.get_snapshot(workspace)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    dice, oracle = Random(4), Oracle()
    directory: Path = tmp_path_factory.mktemp("isolation")
    shared = world("s", oracle, dice, "shared-")
    (directory / "all.yaml").write_text(to_yaml(shared))
    data = {
        "policies": str(directory),
        "store": "memory:",
        "secret": "a secret of the tests",
        "upstreams": {"demo": {"kind": "demo"}},
        "routes": [{"model": "*", "upstream": "demo"}],
        "defaults": {"model": "demo"},
        "semantic": {"enabled": False},
    }
    gateway = await Gateway.open(Settings.model_validate(data))
    sections = {name: world(name, oracle, dice) for name in "abc"}
    for workspace, objects in sections.items():
        await gateway.policies.commit(list(writes(workspace, objects)), Author("seeder", "import"))
    try:
        yield House(gateway, oracle, {**sections, "s": shared}, ModelsEndpoint(gateway.upstreams, gateway.policies))
    finally:
        await gateway.close()


def writes(workspace: str, objects: Sections) -> Iterable[RecordWrite]:
    for kind, named in objects.items():
        for alias, body in named.items():
            more = {"key": alias, "parent": None} if kind == "content" else {}
            yield RecordWrite(RecordKey(workspace, kind, alias), orjson.dumps({**body, **more}))


def caller_of(dice: Random) -> Principal:
    groups = frozenset(dice.sample((*GROUPS, "*"), dice.choice((0, 0, 1, 1, 2)))) if dice.random() < 0.9 else GROUPS
    name = dice.choice(("anna", "bert", "red"))
    return Principal(name, dice.choice(f"abc{EMPTY}"), groups=frozenset(groups), role=Role.ADMIN, key=name)


@dataclass
class Campaign:
    """Asks at random and counts: answers looked at, tokens that should not have been there, and the others."""

    house: House
    snapshot: Callable[[str], Snapshot]
    checks: int = 0
    seen: int = 0
    leaks: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    async def run(self, rounds: int, seed: int = 11) -> "Campaign":
        dice = Random(seed)
        for _ in range(rounds):
            caller = caller_of(dice)
            await self._chat(caller, dice)
            await self._resolve(caller, dice)
            await self._models(caller)
        return self

    def _look(self, caller: Principal, where: str, text: str, asked: str = "") -> set[str]:
        self.checks += 1
        found = set(TOKEN.findall(text)) - set(TOKEN.findall(asked))
        self.seen += len(found)
        wrong = sorted(found - self.house.oracle.visible(caller))
        self.leaks += [f"{where} shows {token} to {caller.name} of {caller.workspace}" for token in wrong]
        return found

    async def _chat(self, caller: Principal, dice: Random) -> None:
        context = asked_for(dice)
        exchange = Exchange("x", caller, self.snapshot(caller.workspace), ())
        body = {"messages": [{"role": "user", "content": "What is the word?"}], "context": context}
        try:
            prepared = await self.house.gateway.pipeline.prepare(exchange, orjson.dumps(body))
        except GatewayError as error:
            self._look(caller, "an error of a chat", f"{error}", str(context))
            return
        sent = prepared.body.decode()
        found = self._look(caller, "a chat", sent)
        if set(context) == {"agent"}:
            wanted = self._always(caller, context["agent"])
            self.missing += [f"a chat of {caller.workspace} lacks {token}" for token in sorted(wanted - found)]
        library = ToolRunner(prepared.injection.selection, prepared.injection.tools or make_own_tools(()), neutralize)
        for name, arguments in tool_calls(dice, self.house.oracle):
            result = await library.run(name, orjson.dumps(arguments).decode())
            self._look(caller, name, f"{result}", str(arguments))

    def _always(self, caller: Principal, agent: str) -> set[str]:
        """What has to be there: the readable texts of the agent's contexts."""
        owner = "s" if agent.startswith("shared-") else caller.workspace
        known = self.house.sections.get(owner, {"agents": {}})["agents"]
        contexts = known[agent]["contexts"] if agent in known else []
        every: set[str] = set().union(*(self.house.oracle.always[owner, context] for context in contexts))
        return every & self.house.oracle.visible(caller)

    async def _resolve(self, caller: Principal, dice: Random) -> None:
        context = asked_for(dice)
        exchange = Exchange("x", caller, self.snapshot(caller.workspace), ())
        try:
            told = await preview_request(self.house.gateway.pipeline, exchange, orjson.dumps({"context": context}))
        except GatewayError as error:
            self._look(caller, "an error of a dry run", f"{error}", str(context))
        else:
            self._look(caller, "a dry run", orjson.dumps(told).decode(), str(context))

    async def _models(self, caller: Principal) -> None:
        state = {"caller": Caller(RequestHead(), caller, None)}
        response = await self.house.models.list(Request({"type": "http", "state": state}))
        self._look(caller, "the list of models", bytes(response.body).decode())


def asked_for(dice: Random) -> dict[str, Any]:
    prefix = dice.choice(("", "", "shared-"))
    asked: dict[str, Any] = {}
    if dice.random() < 0.7:
        asked["agent"] = f"{prefix}agent-{dice.randrange(6)}"
    if dice.random() < 0.4:
        asked["content"] = f"{prefix}node-{dice.randrange(5)}"
    if dice.random() < 0.3:
        asked["include"] = [f"{prefix}context-{dice.randrange(7)}/part-{dice.randrange(4)}"]
    return asked


def tool_calls(dice: Random, oracle: Oracle) -> Iterable[tuple[str, dict[str, Any]]]:
    yield "list_context_resources", {"query": f"the word {dice.choice(list(oracle.readers))}"}
    yield "list_context_resources", {}
    for _ in range(3):
        prefix = dice.choice(("", "shared-"))
        where = f"{prefix}context-{dice.randrange(6)}/part-{dice.randrange(4)}"
        yield "get_context_resource", {"resource_id": where}


@pytest.mark.asyncio(loop_scope="module")
async def test_nobody_is_shown_what_belongs_to_others(house: House) -> None:
    campaign = await Campaign(house, house.snapshot).run(ROUNDS)
    assert campaign.leaks == []
    assert campaign.missing == []
    assert campaign.checks > 7000
    assert campaign.seen > 8000, "a campaign that sees nothing proves nothing"


@pytest.mark.asyncio(loop_scope="module")
async def test_the_policies_of_another_workspace_would_be_noticed(house: House) -> None:
    campaign = await Campaign(house, lambda workspace: house.snapshot("b")).run(20)
    assert len(campaign.leaks) > 20


@pytest.mark.asyncio(loop_scope="module")
async def test_a_forgotten_reader_list_would_be_noticed(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.collectors.contexts.may_read", lambda readers, allowed: True)
    # What the former campaign left in memory was made with the lists.
    fresh = {name: replace(house.snapshot(name)) for name in f"abc{EMPTY}"}
    campaign = await Campaign(house, fresh.__getitem__).run(40)
    assert len(campaign.leaks) > 20
