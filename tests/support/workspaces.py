"""Workspaces that hold one of everything, and that can be put back as they were."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from gateway.domain.receipt import Receipt
from gateway.domain.receipt_note import ReceiptBatch
from gateway.domain.record import Author, RecordKey, RecordWrite
from gateway.domain.session import Session, SessionKey
from gateway.domain.statistics import EXCHANGES, RESOURCES, Bucket, Span, Tally, UncountedBatch
from gateway.ids import encode_id_time
from gateway.stores.protocols import SessionOwner
from tests.support.gateway import POLICIES, Client, Thread, running_gateway

KINDS = ("contexts", "profiles", "agents", "prompts", "recipes")
EVERY_KIND = (*KINDS, *(f"draft:{kind}" for kind in KINDS), "content", "documents", "cases", "keys")
OTHER_STORES = ("receipts", "entities", "relationships", "axioms")
ROLES = ("chat", "editor", "admin")
NEVER = "https://127.0.0.1:9/{}"  # the guard refuses the address before anybody dials it


SUMMARY: dict[str, Any] = {
    **dict.fromkeys(("error", "key", "user", "usage", "cost", "upstream", "http_status", "model")),
    **dict.fromkeys(("injected", "context_tokens", "turn_count", "tools_run", "cached_tokens"), 0),
    **{"at": "2023-11-14T22:13:20.000Z", "seconds": 0.5, "principal": "somebody", "degraded": []},
}


@dataclass(frozen=True)
class World:
    """What a workspace holds. Every text in it has `mark` inside; `prefix` begins every alias."""

    workspace: str
    prefix: str
    mark: str

    def name(self, base: str = "one") -> str:
        return f"{self.prefix}-{base}"

    def id(self, kind: str) -> str:
        """The id of the object `one` of a kind."""
        return sha256(f"{kind}:{self.workspace}".encode()).hexdigest()[:19]

    @cached_property
    def key(self) -> str:
        return "key-" + sha256(self.workspace.encode()).hexdigest()[:12]

    @cached_property
    def case(self) -> str:
        return "case-" + sha256(self.workspace.encode()).hexdigest()[:12]

    @cached_property
    def receipt(self) -> Receipt:
        """The account of an exchange."""
        id = encode_id_time(1_700_000_000) + sha256(self.workspace.encode()).hexdigest()[:12]
        scope = {"readers": [f"key:{self.mark}"]}
        details = {"scope": scope, "turns": [], "tools": [], "timings": {"total_ms": 1.5}}
        return Receipt(
            id, self.workspace, "ok", self.mark, summary=orjson.dumps(SUMMARY), details=orjson.dumps(details)
        )

    def tallies(self) -> dict[Bucket, dict[str, Tally]]:
        """Figures of today."""
        start = Span.DAY.find_start(time.time())
        used = Tally([1] * len(RESOURCES.counters), [set() for _ in RESOURCES.sketches])
        asked = Tally([1] * len(EXCHANGES.counters), [set() for _ in EXCHANGES.sketches])
        return {
            Bucket(self.workspace, RESOURCES.name, Span.DAY, start): {f"{self.mark}/tone": used, self.mark: used},
            Bucket(self.workspace, EXCHANGES.name, Span.DAY, start): {f"{self.mark}\n{self.mark}\nsystem": asked},
        }

    @cached_property
    def upload(self) -> bytes:
        return f"An upload about {self.mark}.".encode()

    @cached_property
    def sha256(self) -> str:
        return sha256(self.upload).hexdigest()

    @cached_property
    def values(self) -> dict[str, str]:
        """What the parameters of paths may be here."""
        return {
            **dict.fromkeys(("context", "profile", "agent", "prompt", "recipe"), self.name()),
            **dict.fromkeys(("entity", "relationship", "axiom"), self.name()),
            "resource": "tone",
            "link": "page",
            "version": "1",
            "sha256": self.sha256,
            "node": self.name(),
            "key": self.key,
            "case": self.case,
            "type": "text",
            "receipt": self.receipt.id,
            "session": self.name("talk"),
        }

    @cached_property
    def ids(self) -> dict[str, str]:
        """The same objects by id or path."""
        by_id = {kind[:-1]: self.id(kind) for kind in KINDS}
        return {**self.values, **by_id, "node": f"{self.name('root')}/{self.name()}"}

    def objects(self, said: str = "now") -> dict[tuple[str, str], tuple[str | None, dict[str, Any]]]:
        """(kind, alias) → (id, body)."""
        text = f"{self.mark} {said}"
        one, base, root = self.name(), self.name("base"), self.name("root")
        bodies: dict[str, dict[str, Any]] = {
            "contexts": {"name": f"Of {self.mark}", "resources": self.resources(text)},
            "profiles": {"name": f"Of {text}", "temperature": 0.5, "contexts": [base]},
            "agents": {"description": text, "instructions": text, "contexts": [base]},
            "prompts": {"template": f"{text}: {{input}}", "contexts": [base]},
            "recipes": {"description": text, "layers": ["body"]},
        }
        found: dict[tuple[str, str], tuple[str | None, dict[str, Any]]] = {
            (kind, one): (self.id(kind), body) for kind, body in bodies.items()
        }
        found |= {(f"draft:{kind}", one): (None, body) for kind, body in bodies.items()}
        resources = {"rule": {"type": "text", "data": {"content": text}}}
        found["contexts", base] = None, {"name": text, "default": True, "resources": resources}
        found["content", root] = None, {"key": root, "parent": None, "title": text, "contexts": [base]}
        found["content", one] = (
            None,
            {"key": one, "parent": root, "title": text, "body": text, "links": [root], "contexts": [base]},
        )
        found["documents", self.sha256] = (
            None,
            {
                "name": f"{self.mark}.txt",
                "media_type": "text/plain",
                "size": len(self.upload),
                "text": self.upload.decode(),
            },
        )
        found["cases", self.case] = None, {"question": f"What about {text}?", "expect": [f"{one}/tone"], "agent": one}
        found["keys", self.key] = None, {"name": f"{self.mark} key", "sha256": sha256(self.key.encode()).hexdigest()}
        return found

    def knowledge(self, said: str) -> dict[str, dict[str, Any]]:
        """One item of each kind."""
        one, text = self.name(), f"{self.mark} {said}"
        return {
            "entities": {"type": "Term", "name": text},
            "relationships": {"from": one, "type": self.mark, "to": one},
            "axioms": {"types": ["Term"], "text": text},
        }

    def resources(self, text: str) -> dict[str, Any]:
        guide = {"type": "text", "mode": "on_demand", "description": text, "data": {"content": f"Guide: {text}"}}
        return {
            "tone": {"type": "text", "data": {"content": text}},
            "guide": guide,
            "page": {"type": "external-link", "data": {"url": NEVER.format(self.mark)}},
            "tools": {"type": "mcp-server", "mode": "manual", "data": {"url": NEVER.format(self.mark)}},
        }

    def secret(self, role: str) -> str:
        """The API key of a role."""
        return f"{self.workspace}-{role}"

    def api_keys(self) -> list[dict[str, Any]]:
        return [
            {
                "name": self.secret(role),
                "sha256": sha256(self.secret(role).encode()).hexdigest(),
                "role": role,
                "workspace": self.workspace,
            }
            for role in ROLES
        ]


OURS = World("ours", "ours", "Quaggas")
THEM = World("them", "them", "Zorilla")
TWIN = World("twin", "ours", "Vervets")  # calls everything as we do
NONE = World("none", "none", "Nobodys")  # is never stored: what is unknown to everybody


class Stage:
    """A gateway whose workspaces can be put back as they were."""

    def __init__(self, client: Client, worlds: Sequence[World] = (OURS, THEM, TWIN)) -> None:
        self.client = client
        self.worlds = worlds
        self._seeded: dict[str, dict[RecordKey, Any]] = {}
        self._counted = False  # whether there are figures
        store = Path(client.app.settings.store.removeprefix("sqlite:///"))
        self._sessions = sqlite3.connect(store, check_same_thread=False)
        self._receipts = sqlite3.connect(store.with_name(f"{store.stem}-receipts.db"), check_same_thread=False)

    def close(self) -> None:
        self._receipts.close()
        self._sessions.close()

    @property
    def _policies(self) -> Any:
        return self.client.app.policies

    def set(self) -> None:
        """Every world with a former version of everything."""
        for said in ("before", "now"):
            self.client.thread.run(self._restore(said))

    def restore(self) -> dict[str, dict[RecordKey, Any]]:
        """Undo whatever was changed since the last time; returns what every workspace holds then."""
        if self.read_held() != self._seeded:
            self.client.thread.run(self._restore())
        return self._seeded

    def read_held(self) -> dict[str, dict[RecordKey, Any]]:
        """What every workspace has stored now."""
        held: dict[str, dict[RecordKey, Any]] = {world.workspace: {} for world in self.worlds}
        for record in (record for kind in EVERY_KIND for record in self._policies.list_records(kind)):
            if (own := held.get(record.key.workspace)) is not None:
                own[record.key] = record
        for workspace, own in held.items():
            own |= self._list_knowledge(workspace)
            query = "SELECT principal, user, id, body FROM sessions WHERE workspace = ?"
            rows = self._sessions.execute(query, (workspace.encode(),))
            own |= {RecordKey(workspace, "sessions", repr(key)): body for *key, body in rows}
            receipts = self._list_receipts(workspace).items()
            own |= {RecordKey(workspace, "receipts", id): one for id, one in receipts}
        return held

    def _list_knowledge(self, workspace: str) -> dict[RecordKey, Any]:
        stored = self.client.app.knowledge.repository.get(workspace).stored
        return {RecordKey(workspace, *key): one.item for key, one in stored.items()}

    async def _keep_knowledge(self, world: World, said: str) -> None:
        wanted = {RecordKey(world.workspace, kind, world.name()): body for kind, body in world.knowledge(said).items()}
        held = self._list_knowledge(world.workspace)
        writes = [RecordWrite(key, orjson.dumps(body)) for key, body in wanted.items()]
        writes += [RecordWrite(key, None) for key in held if key not in wanted]
        await self.client.app.knowledge.repository.commit(writes, Author(f"seeder of {world.mark}", "import"))

    def _list_receipts(self, workspace: str) -> dict[str, Any]:
        query = "SELECT lower(hex(id)), status, summary FROM receipts WHERE workspace = ?"
        return {id: rest for id, *rest in self._receipts.execute(query, (workspace.encode(),))}

    async def _restore(self, said: str = "now") -> None:
        for world in self.worlds:
            wanted = {RecordKey(world.workspace, *place): one for place, one in world.objects(said).items()}
            held = {key: one for key, one in self.read_held()[world.workspace].items() if key.kind not in OTHER_STORES}
            raw = {key: orjson.dumps(body) for key, (_, body) in wanted.items()}
            changed = [key for key in wanted if key not in held or held[key].body != raw[key]]
            writes = [RecordWrite(key, raw[key], id=wanted[key][0]) for key in changed]
            writes += [RecordWrite(key, None) for key in held if key not in wanted]
            if writes:
                await self._policies.commit(writes, Author(f"seeder of {world.mark}", "import"))
            await self._keep_knowledge(world, said)
            await self._keep_upload(world)
            await self.client.app.receipts.write(ReceiptBatch([world.receipt]), "boot of the tests")
            await self._keep_sessions(world)
        if not self._counted:
            self._counted = await self.client.app.statistics.add(
                {bucket: rows for world in self.worlds for bucket, rows in world.tallies().items()},
                UncountedBatch(),
                time.time(),
            )
        self._seeded = self.read_held()

    async def _keep_sessions(self, world: World) -> None:
        """Each caller has a session of its own, and nobody has any other."""
        store, tone = self.client.app.stores.sessions, f"{world.name()}/tone"
        session = Session(added=(tone,), removed=(tone,))
        wanted = [
            SessionKey(world.workspace, one.key or one.name, "", world.name("talk"))
            for one in self.client.app.auth._principals.values()
            if one.workspace == world.workspace
        ]
        for stored in (await store.list_sessions(SessionOwner(world.workspace), 0, 1000)).sessions:
            if stored.key not in wanted:
                await store.delete(stored.key)
        for key in wanted:
            await self.client.app.pipeline.sessions.change(key, lambda _: session)

    async def _keep_upload(self, world: World) -> None:
        place = f"document:{sha256(world.workspace.encode()).hexdigest()}:{world.sha256}:0"
        await self.client.app.store.put(place, world.upload)


@contextmanager
def running_stage(
    thread: Thread, directory: Path, base_url: str, worlds: Sequence[World] = (OURS, THEM, TWIN)
) -> Iterator[Stage]:
    """A gateway with these worlds on SQLite, and policy files that all of them share."""
    with running_replica(thread, directory, base_url, worlds, f"sqlite:///{directory}/gateway.db") as client:
        stage = Stage(client, worlds)
        stage.set()
        yield stage
        stage.close()


@contextmanager
def running_replica(
    thread: Thread, directory: Path, base_url: str, worlds: Sequence[World], store: str
) -> Iterator[Client]:
    """One gateway over a store that others may use, too."""
    keys = [key for world in worlds for key in world.api_keys()]
    with running_gateway(thread, directory, base_url, POLICIES, auth={"keys": keys}, store=store) as client:
        yield client
