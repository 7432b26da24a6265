"""Which types of content a question is probably about."""

import re
from collections.abc import Mapping

LOOKED_AT = 2_000  # characters of a question

# Words of a question → the types that it is probably about, and how well they match.
INTENTS: Mapping[str, tuple[frozenset[str], float]] = {
    r"\b(?:(?:sub)?tasks?|to-?dos?|overdue|deadlines?|aufgaben?)\b": (
        frozenset({"task", "todo", "kanban_card", "card"}),
        0.9,
    ),
    r"\b(?:summar\w+|overview|outline|zusammenfass\w+)\b": (frozenset({"page", "document", "chapter"}), 0.8),
    r"\b(?:who|person|people|characters?|wer)\b": (frozenset({"person", "character", "contact"}), 0.8),
}


def find_meant_types(question: str) -> dict[str, float]:
    """The types that a question is about, each with how well it matches, 0..1."""
    text = question[:LOOKED_AT].lower()
    found: dict[str, float] = {}
    for pattern, (types, score) in INTENTS.items():
        if text and re.search(pattern, text):
            found.update(dict.fromkeys(types, score))
    return found
