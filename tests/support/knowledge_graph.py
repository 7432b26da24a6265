"""A small knowledge graph of a payment API, and gateways that know it."""

from hashlib import sha256
from typing import Any

KNOWLEDGE: dict[str, Any] = {
    "entities": {
        "orders": {
            "type": "Endpoint",
            "name": "Orders endpoint",
            "aliases": ["List orders"],
            "properties": {"path": "/v2/orders", "method": "GET", "summary": "Returns the orders of a customer"},
        },
        "limit": {"type": "Parameter", "name": "Limit", "properties": {"default": 20, "max": 100}},
        "refund": {"type": "Term", "name": "Refund", "properties": {"meaning": "Money that goes back to a customer"}},
        "lamp": {"type": "Product", "name": "Lumo lamp", "properties": {"colour": "red", "price": 49.5}},
        "margin": {
            "type": "Product",
            "name": "Lumo margin",
            "properties": {"percent": 61},
            "readers": ["group:finance"],
        },
    },
    "relationships": [
        {"from": "orders", "type": "accepts", "to": "limit"},
        {"from": "lamp", "type": "has", "to": "margin"},
    ],
    "axioms": {
        "paging": {"types": ["Endpoint", "Parameter"], "text": "Every list endpoint pages with a limit."},
        "prices": {"types": ["Product"], "text": "Prices include VAT."},
    },
}
AGENTS: dict[str, Any] = {
    **{name: {"inject": True} for name in ("writer", "editor", "simplifier", "tuning", "summarizer", "copilot")},
    "strict": {"inject": True, "collectors": {"knowledge": {"max_entities": 1, "format": "json", "axioms": False}}},
    "wide": {"inject": True, "collectors": {"knowledge": {"preset": "simplifier", "include_types": ["Product"]}}},
    "short": {"inject": True, "collectors": {"knowledge": {"max_tokens": 120}}},
    "silent": {"inject": True, "collectors": {"knowledge": {"enabled": False}}},
    "outside": {"inject": False},
}
POLICIES: dict[str, Any] = {"agents": AGENTS, "knowledge": KNOWLEDGE}


def make_key(secret: str, **said: Any) -> dict[str, Any]:
    return {"name": secret, "sha256": sha256(secret.encode()).hexdigest(), **said}


AUTH: dict[str, Any] = {
    "keys": [
        *(make_key(tier, tier=tier) for tier in ("core", "pro", "teams", "enterprise", "platinum")),
        make_key("untold"),
        make_key("finance", tier="teams", groups=["finance"]),
        make_key("root", tier="teams", role="admin"),
        make_key("elsewhere", tier="teams", role="admin", workspace="other"),
    ]
}


def list_system_text(request: dict[str, Any]) -> str:
    """The text of the system message that went upstream; empty if there was none."""
    return "\n".join(str(one["content"]) for one in request["messages"] if one["role"] == "system")
