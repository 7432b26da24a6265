"""A world with secrets: contexts, a tree of content, and callers, drawn from a seed."""

import random
from dataclasses import dataclass
from typing import Any

GROUPS = ("red", "green", "blue", "grey")
USERS = ("ada", "bob", "cleo", "dan")
RETRIEVERS, ENTITIES = 8, 30
DESCRIPTION = "Which lamp shines, and what it does say"


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody with a key, for a user or for itself."""

    key: str
    groups: tuple[str, ...]
    user: str | None

    @property
    def identities(self) -> set[str]:
        own = {f"key:{self.key}", *(f"group:{group}" for group in self.groups)}
        return own | ({f"user:{self.user}"} if self.user is not None else set())


@dataclass(frozen=True, slots=True)
class World:
    """Policies in which every text and title ends with a word that stands nowhere else."""

    policies: dict[str, Any]
    callers: tuple[Caller, ...]
    paths: tuple[str, ...]  # of nodes
    resources: tuple[str, ...]  # ids


def build_world(seed: int, nodes: int = 60, resources: int = 24, forbidden: int = 0) -> World:
    """A world; `forbidden` nodes that nobody of it may read are added without changing the rest."""
    draw = random.Random(seed)
    callers = tuple(
        Caller(f"key{number}", tuple(draw.sample(GROUPS, draw.randrange(3))), draw.choice((None, *USERS)))
        for number in range(8)
    )
    contexts: dict[str, Any] = {}
    ids = []
    for number in range(resources):
        alias = f"c{number % 4}"
        mode = draw.choice(("always", "on_demand", "manual"))
        resource: dict[str, Any] = {
            "type": "text",
            "mode": mode,
            "name": f"Resource {number}",
            "description": "Something about lamps",
        }
        resource |= {"data": {"content": f"A lamp shines, says resource{number}x{seed}"}, **draw_readers(draw)}
        contexts.setdefault(alias, {"resources": {}})["resources"][f"r{number}"] = resource
        ids.append(f"{alias}/r{number}")
    content: dict[str, Any] = {}
    placed: list[tuple[str, dict[str, Any]]] = []
    for number in range(nodes):
        node = make_node(draw, number, seed)
        node["contexts"] = [f"c{draw.randrange(4)}"] if draw.random() < 0.4 else []
        above = draw.choice(placed) if placed and draw.random() < 0.85 else None
        siblings = content if above is None else above[1].setdefault("children", {})
        path = f"n{number}" if above is None else f"{above[0]}/n{number}"
        siblings[f"n{number}"] = node
        placed.append((path, node))
    link_nodes(random.Random(seed + 1), placed)
    for number in range(forbidden):
        node = {"title": f"Lamp hidden{number}", "body": f"A lamp shines, says hidden{number}x{seed}"}
        siblings = placed[number % len(placed)][1].setdefault("children", {}) if number % 2 else content
        siblings[f"h{number}"] = {**node, "readers": ["user:nobody"], "links": [placed[0][0]], "order": -1}
    apart = random.Random(seed + 2)
    add_retrievers(apart, contexts, seed)
    policies = {"contexts": contexts, "content": content, "knowledge": {"entities": make_entities(apart, seed)}}
    return World(policies, callers, tuple(path for path, _ in placed), tuple(ids))


def add_retrievers(draw: random.Random, contexts: dict[str, Any], seed: int) -> None:
    """Retrievers that are asked when they match; what they find ends with the last part of their URL."""
    for number in range(RETRIEVERS):
        data = {"url": f"http://127.0.0.1:9/passage{number}x{seed}", "cache_seconds": 0}
        said = {"type": "retriever", "mode": "semantic", "name": f"Retriever {number}", "description": DESCRIPTION}
        contexts[f"c{number % 4}"]["resources"][f"s{number}"] = {**said, "data": data, **draw_readers(draw)}


def make_entities(draw: random.Random, seed: int) -> dict[str, Any]:
    return {
        f"e{number}": {
            "type": "Lamp",
            "name": f"Lamp entity{number}x{seed}",
            "properties": {"says": f"A lamp shines, says property{number}x{seed}"},
            **draw_readers(draw),
        }
        for number in range(ENTITIES)
    }


def make_node(draw: random.Random, number: int, seed: int) -> dict[str, Any]:
    return {
        "title": f"Lamp title{number}x{seed}",
        "body": f"A lamp shines, says body{number}x{seed}",
        **draw_readers(draw),
    }


def draw_readers(draw: random.Random) -> dict[str, Any]:
    """Half of all things are open to everyone."""
    names = [f"group:{group}" for group in GROUPS] + [f"user:{user}" for user in USERS]
    return {"readers": draw.sample(names, draw.randrange(1, 4))} if draw.random() < 0.5 else {}


def link_nodes(draw: random.Random, placed: list[tuple[str, dict[str, Any]]]) -> None:
    for _, node in placed:
        node["links"] = [draw.choice(placed)[0] for _ in range(draw.randrange(3))]
