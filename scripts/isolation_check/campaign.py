"""Asks a gateway as random callers by every path, and holds every secret word in the answers against the oracle."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import yaml
from msgspec.structs import replace

from gateway.app import Gateway
from gateway.domain.exchange import Exchange
from gateway.domain.principal import Principal
from gateway.domain.record import Author, RecordKey, RecordWrite
from gateway.domain.resource import Resource
from gateway.domain.retriever import FoundPassage, Lookup
from gateway.domain.search import NodeQuery
from gateway.errors import GatewayError
from gateway.injection.neutral import neutralize
from gateway.injection.tools import make_own_tools
from gateway.pipeline import PreparedRequest
from gateway.preview import describe_request
from gateway.retrieval.tool_runner import ToolRunner
from gateway.semantic.factory import DEFAULT_FACTORY
from gateway.semantic.node_search import NodeSearch
from gateway.settings import Settings
from scripts.isolation_check.oracle import list_secrets, may_read
from scripts.isolation_check.word_embedder import WordEmbedder
from scripts.isolation_check.world import Caller, World

WORD = re.compile(r"\b(?:resource|body|title|hidden|entity|property|passage)\d+x\d+\b")
QUESTION = "Which lamp shines, and what does it say?"


@asynccontextmanager
async def opened(world: World, folder: Path) -> AsyncIterator[Gateway]:
    """A gateway with the contexts of a world in files and its nodes in the store."""
    write_contexts(world, folder)
    data = {
        "policies": str(folder),
        "store": "memory:",
        "secret": "a secret of the check",
        "upstreams": {"demo": {"kind": "demo"}},
        "routes": [{"model": "*", "upstream": "demo"}],
        "defaults": {"model": "demo", "budget": 4000},
        "semantic": {"milliseconds": 10_000},
        "limits": {"collect_milliseconds": 10_000},
    }
    gateway = await Gateway.open(Settings.model_validate(data))
    assert gateway.semantic is not None
    gateway.semantic.factory = replace(DEFAULT_FACTORY, open_embedder=lambda _: WordEmbedder())
    job = asyncio.create_task(gateway.semantic.run())
    try:
        await gateway.policies.commit(list(list_writes(world.policies["content"])), Author("seeder", "import"))
        await index_nodes(gateway)
        gateway.pipeline.retrievers.look_up = look_up  # type: ignore[method-assign]
        await index_entities(gateway, IsolationCampaign(gateway, world))
        yield gateway
    finally:
        job.cancel()
        await asyncio.gather(job, return_exceptions=True)
        await gateway.close()


def write_contexts(world: World, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    policies = {kind: world.policies[kind] for kind in ("contexts", "knowledge")}
    (folder / "all.yaml").write_text(yaml.safe_dump(policies, sort_keys=False))


async def index_nodes(gateway: Gateway) -> None:
    """Return once every node can be found by words and meaning, so that answers do not depend on time."""
    library = gateway.pipeline.library
    assert library is not None
    assert isinstance(library.finder, NodeSearch)
    snapshot = gateway.policies.get_snapshot("default")
    assert gateway.semantic is not None
    await library.finder.find("default", snapshot, frozenset(), NodeQuery(("lamp",)), 1)
    await library.finder.wait_until_indexed("default")
    await library.finder.find("default", snapshot, frozenset(), NodeQuery(("lamp",), max_embedded=100_000), 1)
    await gateway.semantic.documents.wait_until_indexed()


async def look_up(workspace: str, resource: Resource, question: str, seconds: float | None = None) -> Lookup:
    """What a search endpoint would find; none is asked."""
    word = WORD.search(repr(resource.data.target))
    assert word is not None
    return Lookup((FoundPassage(f"A lamp shines, says {word[0]}"),))


async def index_entities(gateway: Gateway, campaign: "IsolationCampaign") -> None:
    """Return once entities are found by their meaning too: whoever asks first has them embedded."""
    assert gateway.semantic is not None
    await campaign.prepare(campaign.world.callers[0], {})
    await gateway.semantic.wait_until_indexed()
    await gateway.semantic.documents.wait_until_indexed()


def list_writes(content: dict[str, Any]) -> Iterator[RecordWrite]:
    """Every node as a record; its id is its path."""
    pending: list[tuple[str, Any, str | None]] = [(key, node, None) for key, node in content.items()]
    while pending:
        key, node, parent = pending.pop(0)
        path = key if parent is None else f"{parent}/{key}"
        body = {name: value for name, value in node.items() if name != "children"}
        yield RecordWrite(RecordKey("default", "content", path), orjson.dumps({**body, "key": key, "parent": parent}))
        pending += [(below, child, path) for below, child in node.get("children", {}).items()]


@dataclass
class IsolationCampaign:
    """Counts: pairs of an answer and a thing that it must not show unless the caller may read it."""

    gateway: Gateway
    world: World
    checks: int = 0
    seen: int = 0  # words that were shown to those who may read them
    kinds: set[str] = field(default_factory=set)  # of those words: "body", "entity" …
    leaks: list[str] = field(default_factory=list)
    secrets: dict[str, set[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.secrets = list_secrets(self.world.policies)

    async def run(self, checks: int, seed: int = 1) -> "IsolationCampaign":
        """At least so many checks."""
        draw = random.Random(seed)
        while self.checks < checks:
            caller, path = draw.choice(self.world.callers), draw.choice(self.world.paths)
            named = [f"c{draw.randrange(4)}"] if draw.random() < 0.5 else []
            await self.ask(caller, {"content": path, "contexts": named, "selection": {"preset": "aggressive"}}, draw)
        return self

    async def ask(self, caller: Caller, context: dict[str, Any], draw: random.Random) -> None:
        """One request by every path."""
        prepared = await self.prepare(caller, context)
        if isinstance(prepared, GatewayError):
            self._look(caller, "error", f"{prepared}", str(context))
            return
        exchange, request = prepared
        self._look(caller, "injection", request.body.decode())
        self._look(caller, "resolve", orjson.dumps(describe_request(exchange, request)).decode())
        await self._call_tools(caller, exchange, request, draw)

    async def prepare(self, caller: Caller, context: dict[str, Any]) -> tuple[Exchange, PreparedRequest] | GatewayError:
        principal = Principal(
            caller.key,
            groups=frozenset(caller.groups),
            rights=frozenset({"act_as_user"}),
            tier="teams",
            key=caller.key,
        )
        said = {**context, **({"user": caller.user} if caller.user is not None else {})}
        exchange = Exchange("x", principal, self.gateway.policies.get_snapshot("default"), ())
        body = {"messages": [{"role": "user", "content": QUESTION}], "context": said}
        try:
            return exchange, await self.gateway.pipeline.prepare(exchange, orjson.dumps(body))
        except GatewayError as error:
            return error

    async def _call_tools(
        self, caller: Caller, exchange: Exchange, request: PreparedRequest, draw: random.Random
    ) -> None:
        library, scope, injection = self.gateway.pipeline.library, request.scope, request.injection
        assert library is not None
        nodes = library.open("default", exchange.snapshot, scope.node, scope.readers, exchange.degraded.add)
        tools = ToolRunner(injection.selection, injection.tools or make_own_tools(()), neutralize, nodes=nodes)
        wanted = [f"node:{path}" for path in draw.sample(self.world.paths, 4)]
        for id in (*wanted, *draw.sample(self.world.resources, 2)):
            result = await tools.run(tools.tools.get, orjson.dumps({"resource_id": id}).decode())
            self._look(caller, "get", result.text)
        for query in ({}, {"query": "lamp shines"}):
            result = await tools.run(tools.tools.list, orjson.dumps(query).decode())
            self._look(caller, "search" if query else "list", result.text)

    def _look(self, caller: Caller, where: str, text: str, asked: str = "") -> None:
        shown = set(WORD.findall(text)) - set(WORD.findall(asked))
        self.checks += len(self.secrets)
        for word in shown & self.secrets.keys():
            if may_read(caller.identities, self.secrets[word]):
                self.seen += 1
                self.kinds.add(word.rstrip("0123456789x"))
            else:
                self.leaks.append(f"{where} shows {word} to {caller}")
