"""One good request for every route of the management API, in the words of a world that it is sent to."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from tests.support.workspaces import KINDS, World


@dataclass(frozen=True)
class Sample:
    """A request. Texts may hold `<one>`, `<base>`, `<sha256>` …, which a world gives their values."""

    method: str
    path: str  # as in the route table
    body: Any = None
    query: str = ""
    media: str = "application/json"
    status: int = 200
    if_match: str = ""

    @property
    def route(self) -> tuple[str, str]:
        return self.method, self.path

    @property
    def label(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def owned(self) -> bool:
        """Whether its path names something that belongs to a workspace."""
        return "{" in self.path and "{type}" not in self.path

    @property
    def writes(self) -> bool:
        """Whether it changes what is stored."""
        return self.method != "GET" and not self.path.endswith(
            (
                "/resolve",
                "/refresh",
                "/diff",
                "/replay",
                "/sign-in",
                "/adopt",
                "/release",
                "/preview",
                "/find",
                "/activity",
                "/run",
            )
        )

    def named(self, world: World, by_id: bool = False) -> dict[str, str]:
        """What the parameters of its path are in a world."""
        values = world.ids if by_id and not self.path.startswith("/sessions") else world.values
        if self.path.endswith("/refresh"):
            return {**values, "resource": values["link"]}
        if self.path.endswith("/usage"):
            return {**values, "context": world.name("base"), "resource": "rule"}
        return values

    def target(self, world: World, by_id: bool = False) -> str:
        """Path and query."""
        path = self.path
        for name, value in self.named(world, by_id).items():
            if f"{{{name}" in path:
                path = path.replace(f"{{{name}}}", quote(value, safe="")).replace(f"{{{name}:path}}", quote(value))
        query = quote(fill_places(self.query, world), safe="=&")
        return f"{path}?{query}" if query else path

    def payload(self, world: World) -> bytes | None:
        if self.body is None:
            return None
        raw = self.body if isinstance(self.body, bytes) else orjson.dumps(self.body)
        return fill_places(raw.decode(), world).encode()

    def headers(self) -> dict[str, str]:
        named = {"content-type": self.media} if self.body is not None else {}
        return {**named, "if-match": self.if_match} if self.if_match else named


def fill_places(text: str, world: World) -> str:
    """A text with the names of a world."""
    for name in ("one", "base", "root", "new"):
        text = text.replace(f"<{name}>", world.name(name))
    for place, value in (("sha256", world.sha256), ("mark", world.mark), ("key", world.key), ("case", world.case)):
        text = text.replace(f"<{place}>", value)
    return text


TEXT = {"type": "text", "data": {"content": "Be brief."}}
BODIES: dict[str, dict[str, Any]] = {
    "contexts": {"name": "Fresh", "resources": [{"id": "a", **TEXT}, {"id": "b", **TEXT}]},
    "profiles": {"contexts": ["<base>"], "budget": 500},
    "agents": {"contexts": ["<base>"], "profile": "<one>", "instructions": "Be brief."},
    "prompts": {"template": "About {input}", "contexts": ["<base>"]},
    "recipes": {"content": "required", "layers": ["body", {"take": "nodes", "types": ["rule"]}], "world": "summary"},
}


def list_version_samples(one: str) -> tuple[Sample, ...]:
    """What can be asked about the past of an object."""
    return (
        Sample("GET", f"{one}/versions"),
        Sample("GET", f"{one}/versions/compare", query="from=1&to=2"),
        Sample("GET", f"{one}/versions/{{version}}"),
        Sample("POST", f"{one}/rollback", {"version": 1}),
    )


def list_kind_samples(kind: str) -> tuple[Sample, ...]:
    """What every kind of object can do."""
    every, one, body = f"/{kind}", f"/{kind}/{{{kind[:-1]}}}", BODIES[kind]
    return (
        Sample("GET", every),
        Sample("POST", every, {"alias": "<new>", **body}, status=201),
        Sample("GET", one),
        Sample("PUT", one, body, if_match="*"),  # else it would create what is not there
        Sample("DELETE", one, status=204),
        *list_version_samples(one),
        Sample("GET", f"{one}/draft"),
        Sample("PUT", f"{one}/draft", body),
        Sample("DELETE", f"{one}/draft", status=204),
        Sample("POST", f"{one}/publish"),
    )


CONTEXT, RESOURCE, NODE = "/contexts/{context}", "/contexts/{context}/resources/{resource}", "/content/{node:path}"
SESSION, OWN = "/sessions/{session}", "user="  # of the caller itself
RESOLVE = {"context": {"agent": "<one>", "content": "<one>"}, "query": "What is it about?"}
DIFF = {"from": RESOLVE, "to": {"context": {"agent": "<one>"}, "query": "Something else?"}}
CASE = {"question": "What is it about?", "expect": ["<one>/tone"], "agent": "<one>"}
BUNDLE = {"agents": {"<new>": {"instructions": "Be brief."}}}

SAMPLES: tuple[Sample, ...] = (
    *(sample for kind in KINDS for sample in list_kind_samples(kind)),
    Sample("GET", "/evaluation-cases"),
    Sample("POST", "/evaluation-cases", CASE, status=201),
    Sample("POST", "/evaluation-cases/run", {"cases": ["<case>"], "model": "m"}),
    Sample("GET", "/evaluation-cases/{case}"),
    Sample("PUT", "/evaluation-cases/{case}", CASE),
    Sample("DELETE", "/evaluation-cases/{case}", status=204),
    Sample("GET", "/resource-types"),
    Sample("GET", "/resource-types/{type}"),
    Sample("GET", "/contexts/global"),
    Sample("PUT", f"{CONTEXT}/set-global"),
    Sample("POST", f"{CONTEXT}/set-global"),
    Sample("GET", f"{CONTEXT}/usage"),
    Sample("GET", "/usage", query="contexts=<base>"),
    Sample("GET", f"{CONTEXT}/resources"),
    Sample("POST", f"{CONTEXT}/resources", {"id": "fresh", **TEXT}, status=201),
    Sample("PUT", f"{CONTEXT}/resources/order", {"order": ["tools", "page", "guide", "tone"]}),
    Sample("GET", RESOURCE),
    Sample("PUT", RESOURCE, TEXT),
    Sample("DELETE", RESOURCE, status=204),
    Sample("GET", f"{RESOURCE}/usage"),
    Sample("POST", f"{RESOURCE}/refresh"),
    Sample("GET", "/links"),
    Sample("GET", "/tool-servers"),
    Sample("GET", "/drafts"),
    Sample("GET", "/documents"),
    Sample("POST", "/documents", b"A new upload of <mark>.", media="text/plain", query="name=new.txt", status=201),
    Sample("GET", "/documents/{sha256}"),
    Sample("GET", "/documents/{sha256}/content"),
    Sample("DELETE", "/documents/{sha256}", status=204),
    Sample("GET", "/content"),
    Sample("GET", "/content/tree", query="node=<root>"),
    Sample("POST", "/content", {"id": "<new>", "key": "fresh", "parent": "<root>", "contexts": ["<base>"]}, status=201),
    Sample("GET", NODE),
    Sample("PUT", NODE, {"title": "Other", "links": ["<root>"]}),
    Sample("DELETE", NODE, status=204),
    Sample("GET", f"{NODE}/context"),
    Sample("PUT", f"{NODE}/context", {"contexts": ["<base>"], "inherit": "merge"}),
    Sample("DELETE", f"{NODE}/context", status=204),
    Sample("GET", f"{NODE}/links"),
    Sample("POST", f"{NODE}/move", {"parent": None}),
    Sample("POST", f"{NODE}/activity", {"kind": "view"}, status=204),
    Sample("GET", "/activity"),
    *list_version_samples(NODE),
    Sample("POST", "/resolve", RESOLVE),
    Sample("POST", "/contexts/resolve", RESOLVE),
    Sample("POST", "/diff", DIFF),
    Sample("GET", "/search", query="q=<mark>"),
    Sample("GET", "/export"),
    Sample("POST", "/import", BUNDLE),
    Sample("POST", f"{CONTEXT}/preview", {"resource": TEXT}),
    Sample("POST", f"{CONTEXT}/find", {"resource": TEXT, "questions": ["Why?"]}),
    Sample("GET", "/content/children", query="node=<root>"),
    Sample("GET", "/health"),
    Sample("GET", "/adopted"),
    Sample("POST", "/adopt", {"objects": []}),
    Sample("POST", "/release", {"objects": []}),
    Sample("GET", "/knowledge/entities"),
    Sample("POST", "/knowledge/entities", {"id": "<new>", "type": "Term", "name": "Tide"}, status=201),
    Sample("GET", "/knowledge/entities/{entity}"),
    Sample("PUT", "/knowledge/entities/{entity}", {"type": "Term", "name": "Tide"}),
    Sample("DELETE", "/knowledge/entities/{entity}", status=204),
    Sample("GET", "/knowledge/relationships"),
    Sample("POST", "/knowledge/relationships", {"from": "<one>", "type": "is", "to": "<one>"}, status=201),
    Sample("GET", "/knowledge/relationships/{relationship}"),
    Sample("PUT", "/knowledge/relationships/{relationship}", {"from": "<one>", "type": "was", "to": "<one>"}),
    Sample("DELETE", "/knowledge/relationships/{relationship}", status=204),
    Sample("GET", "/knowledge/axioms"),
    Sample("POST", "/knowledge/axioms", {"id": "<new>", "types": ["Term"], "text": "Always."}, status=201),
    Sample("GET", "/knowledge/axioms/{axiom}"),
    Sample("PUT", "/knowledge/axioms/{axiom}", {"types": ["Term"], "text": "Never."}),
    Sample("DELETE", "/knowledge/axioms/{axiom}", status=204),
    Sample("GET", "/audit"),
    Sample("GET", "/quotas"),
    Sample("GET", "/sessions"),
    Sample("GET", SESSION, query=OWN),
    Sample("PUT", SESSION, {"settings": {"budget": 500}, "content": "<one>"}, query=OWN),
    Sample("DELETE", SESSION, query=OWN, status=204),
    Sample("GET", f"{SESSION}/items", query=OWN),
    Sample("POST", f"{SESSION}/items", {"id": "<one>/guide"}, query=OWN, status=201),
    Sample("DELETE", f"{SESSION}/items/{{context}}/{{resource}}", query=OWN),
    Sample("POST", f"{SESSION}/items/{{context}}/{{resource}}/restore", query=OWN),
    Sample("GET", "/receipts"),
    Sample("GET", "/receipts/export"),
    Sample("GET", "/receipts/{receipt}"),
    Sample("POST", "/receipts/{receipt}/replay", {"query": "What is it about?", "context": {"agent": "<one>"}}),
    Sample("DELETE", "/receipts/{receipt}", status=204),
    Sample("GET", "/stats"),
    Sample("GET", "/stats/resources"),
    Sample("GET", "/stats/contexts"),
    Sample("GET", "/stats/series", query="name=<mark>"),
    Sample("GET", "/stats/agents"),
    Sample("GET", "/stats/models"),
    Sample("GET", "/stats/quality"),
    Sample("GET", "/stats/cache"),
    Sample("GET", "/stats/suggestions"),
    Sample("GET", "/me"),
    Sample("POST", "/sign-in", status=201),
    Sample("DELETE", "/sign-in", status=404),
    Sample("GET", "/keys"),
    Sample("POST", "/keys", {"name": "<new>", "agents": ["<one>"]}, status=201),
    Sample("GET", "/keys/{key}"),
    Sample("PUT", "/keys/{key}", {"name": "<new>", "role": "editor"}),
    Sample("DELETE", "/keys/{key}", status=204),
    Sample("GET", "/openapi.json"),
)
