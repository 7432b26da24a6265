"""Made-up receipts of the last thirty days, each with what is counted of it."""

import random
from collections.abc import Iterator
from typing import Any

import orjson

from gateway.domain.receipt import Receipt
from gateway.ids import encode_id_time

DAYS = 30
RESOURCES, AGENTS = 300, 20
SCOPES = 200  # different injections besides those with picks of their own


def make_receipts(count: int, seed: int, end: float) -> Iterator[Receipt]:
    chance = random.Random(seed)
    scopes = [(f"agent{number % AGENTS}", make_details(chance)) for number in range(SCOPES)]
    begin = end - DAYS * 86_400
    for number in range(count):
        agent, details = scopes[min(int(chance.expovariate(0.05)), SCOPES - 1)]
        if chance.random() < 0.3:
            details = make_details(chance)
        yield Receipt(
            f"{encode_id_time(begin + number * DAYS * 86_400 / count)}{chance.getrandbits(48):012x}",
            "default",
            chance.choices(["ok", "error", "aborted"], [97, 2, 1])[0],
            f"s{chance.randrange(max(1, count // 20))}" if chance.random() < 0.7 else None,
            agent,
            None,
            (),
            make_summary(chance),
            details,
        )


def make_summary(chance: random.Random) -> bytes:
    prompt = chance.randrange(500, 4000)
    usage = {"prompt_tokens": prompt, "completion_tokens": 200, "total_tokens": prompt + 200}
    summary: dict[str, Any] = {
        "principal": "app",
        "key": "key-1",
        "user": None,
        "model": chance.choice(["gpt-4o", "gpt-4o-mini", "claude-sonnet"]),
        "placement": chance.choice(["system", "turn"]),
        "seconds": 1.25,
        "context_tokens": 1200,
        "turn_count": 1,
        "tools_run": 0,
        "usage": usage,
        "cached_tokens": 0,
        "cost": 0.0012,
        "degraded": [],
    }
    return orjson.dumps(summary)


def make_details(chance: random.Random) -> bytes:
    used = sorted({min(int(chance.expovariate(0.02)), RESOURCES - 1) for _ in range(6)})
    injected = [make_item(chance, number) for number in used]
    tools = [make_tool(chance)] if chance.random() < 0.1 else []
    sources = [{"level": "agent", "entity": "agent", "context": f"context{number % 30}"} for number in used]
    selection = {"injected": injected, "catalogue": [], "dropped": [], "over_budget": []}
    return orjson.dumps({"selection": selection, "sources": sources, "turns": [], "tools": tools, "timings": {}})


def make_item(chance: random.Random, number: int) -> dict[str, Any]:
    name = {"id": f"context{number % 30}/r{number}", "name": f"Resource {number}", "type": "text", "kind": "reference"}
    why = {"level": "agent", "entity": "agent", "context": f"context{number % 30}", "version": 1, "score": None}
    return {
        **name,
        **why,
        "mode": "always",
        "via": chance.choice(["contexts", "semantic"]),
        "tokens": 50 + number,
        "position": 0,
        "truncated": False,
        "reason": None,
        "why": "assigned to agent agent",
    }


def make_tool(chance: random.Random) -> dict[str, Any]:
    number = chance.randrange(RESOURCES)
    found = {"name": "get_context_resource", "resource": f"context{number % 30}/r{number}", "left_out": None}
    return {**found, "characters": 400, "failed": False, "ms": 1.0}
