"""The knowledge graph that is asked, and agents that ask it."""

from typing import Any

PRESETS = ("editor", "simplifier", "tuning", "summarizer", "copilot")
TYPES = ("Concept", "Term", "Endpoint", "Parameter", "Product", "Feature")
TIED = frozenset({"Concept", "Endpoint", "Product"})  # types whose entities are tied one to the next
TURBINES = 40  # entities of each type that answer the same question


def make_entity(kind: str, number: int) -> dict[str, Any]:
    properties = {f"property-{n}": f"value {n}" for n in range(1, 13)}
    return {"type": kind, "name": f"Turbine {kind} {number}", "properties": properties}


ORDERS = {
    "type": "Endpoint",
    "name": "Orders endpoint",
    "aliases": ["List orders"],
    "properties": {"path": "/v2/orders", "method": "GET"},
}
KNOWLEDGE: dict[str, Any] = {
    "entities": {
        "orders": ORDERS,
        "limit": {"type": "Parameter", "name": "Limit", "properties": {"default": 20, "max": 100}},
        "cursor": {"type": "Parameter", "name": "Cursor"},
        "margin": {"type": "Product", "name": "Lumo margin", "readers": ["group:finance"]},
        **{f"{kind.lower()}-{n}": make_entity(kind, n) for kind in TYPES for n in range(TURBINES)},
    },
    "relationships": [
        {"from": "orders", "type": "accepts", "to": "limit"},
        {"from": "orders", "type": "pages-by", "to": "cursor"},
        *(
            {"from": f"{kind.lower()}-{n}", "type": "leads-to", "to": f"{kind.lower()}-{n + 1}"}
            for kind in sorted(TIED)
            for n in range(TURBINES - 1)
        ),
    ],
    "axioms": {
        "paging": {"types": ["Endpoint", "Parameter"], "text": "Every list endpoint pages with a limit."},
        "prices": {"types": ["Product"], "text": "Prices include VAT."},
        "words": {"types": ["Concept", "Term", "Feature"], "text": "Words have one meaning."},
    },
}


def configure(**options: Any) -> dict[str, Any]:
    return {"inject": True, "budget": {"total": 12000}, "collectors": {"knowledge": options}}


KNOWLEDGE_AGENTS: dict[str, Any] = {
    **{name: configure() for name in PRESETS},
    "novice": configure(),
    "strict": configure(include_types=["Endpoint"], exclude_types=["Parameter"], max_entities=3),
    "excluding": configure(exclude_types=["Parameter"]),
    "certain": configure(min_score=0.99),
    "loose": configure(min_score=0.01),
    "unrelated": configure(relationships=False, axioms=False, properties=False),
    "marked": configure(format="markdown"),
    "jsonized": configure(format="json"),
    "short": configure(max_tokens=300),
    "off": configure(enabled=False),
    "early": configure(priority=1),
    "custom": configure(preset="simplifier", include_types=["Endpoint"], min_score=0.3),
}
