"""The policies of the gateway: a wiki, a task board, tables, a story, a knowledge graph, and agents that ask."""

from pathlib import Path
from typing import Any

import yaml

from scripts.seed_rows.chat_policies import CHAT_AGENTS, CHAT_CONTEXTS, text
from scripts.seed_rows.graph import KNOWLEDGE, KNOWLEDGE_AGENTS

STORY = yaml.safe_load((Path(__file__).resolve().parents[2] / "policies" / "story.yaml").read_text(encoding="utf-8"))
RULES = "\n\n".join(f"Rule {number}. Whoever holds key {number} opens door {number} at dawn." for number in range(200))
LAND = " ".join(f"The capital of country {number} is called Town{number}." for number in range(300))
LONG = "Alpha begins here. " + "Nothing happens in the middle of this text. " * 200 + "Omega ends here."


def page(title: str, body: str = "", **more: Any) -> dict[str, Any]:
    return {"title": title, "body": body, **more}


def number_pages(prefix: str, count: int) -> dict[str, Any]:
    return {
        f"{prefix}{n}": page(f"{prefix.title()} {n}", f"This is {prefix} number {n}.", id=f"{prefix}{n}", order=n)
        for n in range(1, count + 1)
    }


RETURNS = page(
    "Return policy",
    "Customers may return lamps within thirty days.",
    id="returns",
    order=10,
    links=[{"to": "supplier", "type": "supplier"}, "refunds"],
    children=number_pages("step", 7),
)
SHELVES = {
    **{key: {**one, "order": n} for n, (key, one) in enumerate(number_pages("before", 3).items())},
    "returns": RETURNS,
    **{key: {**one, "order": 20 + n} for n, (key, one) in enumerate(number_pages("after", 3).items())},
}
WIKI = page(
    "Wiki",
    "The wiki of the lamp shop.",
    id="wiki",
    type="site",
    children={
        "shop": page(
            "Shop",
            "All about the shop.",
            id="shop",
            children={
                "service": page(
                    "Service",
                    "How we serve customers.",
                    id="service",
                    children={"terms": page("Terms", "The terms of sale.", id="terms", children=SHELVES)},
                )
            },
        ),
        "refunds": page("Refunds", "Money comes back within a week.", id="refunds", links=["bank"]),
        "supplier": page("Supplier", "Halden delivers all lamps.", id="supplier", type="contact"),
        "bank": page("Bank", "Our bank is in Bergen.", id="bank", links=["branch"]),
        "branch": page("Branch", "The branch is at the harbour.", id="branch"),
        "complaints": page("Complaints", "Stay polite.", id="complaints", links=["returns"]),
        "staff": page("Staff notes", "Discounts on lamps are negotiable.", id="staff", readers=["group:staff"]),
        "hub": page("Hub", "Links to everything.", id="hub", links=[f"spoke{n}" for n in range(1, 13)]),
        "spokes": page("Spokes", id="spokes", children=number_pages("spoke", 12)),
        "land": page("Countries", LAND, id="land"),
    },
)


VOLUMES = {f"volume{n}": page(f"Volume {n}", LAND, id=f"volume{n}") for n in range(3)}
LIBRARY = page(
    "Library",
    id="library",
    children={
        "atlas": page("Atlas", LAND, id="atlas", links=list(VOLUMES)),
        "shelf": page("Shelf", id="shelf", children={"row": page("Row", id="shelf-row", children=VOLUMES)}),
    },
)


def task(title: str, body: str, **more: Any) -> dict[str, Any]:
    return {"title": title, "type": "todo", "body": body, **more}


BOARD = page(
    "Board",
    id="board",
    children={
        "move-users": task("Move the user database", "Took three days: copy, switch, verify.", id="task-455"),
        "move-orders": task("Move the order database", "Orders go to the new server.", id="task-456"),
        "printer": task(
            "Call the printer",
            "The flyers are late.",
            id="task-9",
            properties={"status": "overdue", "due": "2026-01-02"},
        ),
        "minutes": page("Minutes", "We talked about tasks that are overdue at length.", id="minutes"),
    },
)
ORDERS = {
    "title": "Orders",
    "type": "database",
    "id": "orders",
    "children": {"order-1": {"title": "Order 1", "type": "row", "id": "order-1", "properties": {"item": "Lumo lamp"}}},
}
CUSTOMERS = {
    "title": "Customers",
    "type": "database",
    "id": "customers",
    "body": "Who buys from us.",
    "children": {
        "row-1": {
            "title": "Halden",
            "type": "row",
            "id": "row-1",
            "properties": {"city": "Bergen"},
            "links": [{"to": "order-1", "type": "orders"}],
        },
        "row-2": {"title": "Brandt", "type": "row", "id": "row-2", "properties": {"city": "Oslo"}},
    },
}
PREFERENCES = {
    "title": "Preferences",
    "id": "preferences",
    "children": {
        "ada": page("Preferences", "Answer briefly.", id="preferences:user:ada", readers=["user:ada"]),
    },
}
WEIGHTS = ("semantic", "structural", "recency", "type", "affinity")


def weigh(name: str) -> dict[str, Any]:
    """An agent that ranks by one figure alone, so that its score is that figure."""
    weights = {one: float(one == name) for one in WEIGHTS}
    return {"inject": True, "ranking": weights, "budget": {"total": 8000}}


AGENTS: dict[str, Any] = {
    **{f"by-{name}": weigh(name) for name in WEIGHTS},
    "clerk": {"inject": True},
    "quiet": {"inject": True, "collectors": {"relations": {"enabled": False}, "focus": {"children_limit": 1}}},
    "demanding": {"inject": True, "requires": ["knowledge"]},
    "picky": {"contexts": ["help"]},
    "retold": {"contexts": ["retold"], "budget": {"total": 900}},
    "full": {"contexts": ["full"], "budget": {"total": 400}},
    "cutter": {"contexts": ["cuts"], "budget": {"total": 2000}},
    "starts": {"contexts": ["starts"], "budget": {"total": 300}},
    "ends": {"contexts": ["ends"], "budget": {"total": 300}},
    "wide": {"inject": True, "budget": {"total": 8000}},
}
CONTEXTS: dict[str, Any] = {
    "help": {
        "resources": {
            "voice": text("Write plainly."),
            "password": text("Reset a forgotten password on the account settings page.", mode="semantic"),
            "refund": text("We refund a damaged parcel within thirty days.", mode="semantic"),
            "pairing": text("Hold the button until the lamp blinks.", mode="on_demand", description="Pair a lamp"),
        }
    },
    "retold": {"resources": {"rules": text(RULES, truncate="summarize")}},
    "full": {"resources": {f"part-{n}": text(f"Part {n}. " + "Words take up room. " * 40) for n in range(5)}},
    "cuts": {"resources": {"land": text(LAND, mode="semantic", name="Capitals of countries")}},
    "starts": {"resources": {"long": text(LONG, truncate="keep_start")}},
    "ends": {"resources": {"long": text(LONG, truncate="keep_end")}},
}
POLICIES: dict[str, Any] = {
    "contexts": {**CONTEXTS, **CHAT_CONTEXTS, **STORY["contexts"]},
    "agents": {**AGENTS, **CHAT_AGENTS, **KNOWLEDGE_AGENTS},
    "recipes": STORY["recipes"],
    "knowledge": KNOWLEDGE,
    "content": {
        "wiki": WIKI,
        "board": BOARD,
        "library": LIBRARY,
        "customers": CUSTOMERS,
        "orders": ORDERS,
        "preferences": PREFERENCES,
        **STORY["content"],
    },
}
