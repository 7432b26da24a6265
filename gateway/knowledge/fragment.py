"""The text of a fragment: entities with their properties, the relationships between them, the axioms of their types."""

import re
from collections import Counter
from collections.abc import Callable
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import msgspec
import orjson

from gateway.domain.collector import FoundItem, FoundPart
from gateway.domain.knowledge import Axiom, Entity, PropertyValue, Relationship
from gateway.domain.longest import find_longest_within
from gateway.knowledge.config import KnowledgeConfig, KnowledgeFormat
from gateway.knowledge.matches import ScoredEntity

FRAGMENT_ID, TITLE = "knowledge", "Knowledge graph"
WHY = "what the knowledge graph says about the question"
# Safe without quotes in YAML, whatever reads it; anything else is quoted as in JSON.
_PLAIN = re.compile(r"[A-Za-z/_](?:[\w /.()+%€$@'–-]++|[:,](?=\S))*+", re.UNICODE)
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
LONGEST_WORD = max(map(len, _WORDS))


class KnowledgeFragment(msgspec.Struct, eq=False, dict=True):
    """What was selected, the best entities first. It can be cut to its best entities, and stays whole sentences."""

    entities: tuple[ScoredEntity, ...]
    relationships: tuple[Relationship, ...]  # by the rank of their ends
    axioms: tuple[Axiom, ...]
    config: KnowledgeConfig

    @cached_property
    def _written(self) -> dict[tuple[str, str], str]:
        """By id and label: how entities are written in YAML, once for all lengths of the fragment."""
        return {}

    def to_item(self, count: int | None = None) -> FoundItem:
        """The item of the best `count` entities, or of all."""
        part = self if count is None else self.keep(count)
        score = part.entities[0].score if part.entities else 0.0
        return FoundItem(
            FRAGMENT_ID,
            "knowledge",
            self.config.format.value,
            TITLE,
            part.render(len(self.entities) - len(part.entities)),
            score,
            WHY,
            max_tokens=self.config.max_tokens,
            shrinkable=self,
            parts=tuple(FoundPart(one.entity.id, one.entity.type, one.entity.name, one.score) for one in part.entities),
            counts={
                "entities": len(part.entities),
                "relationships": len(part.relationships),
                "axioms": len(part.axioms),
            },
        )

    def shrink(self, count: Callable[[str], int], limit: int, whole: int = 0) -> FoundItem | None:
        """The most of the best entities whose text fits; None if not even one does."""
        most = len(self.entities)

        def measure(size: int) -> int:
            return count(self.keep(size).render(most - size))

        size = find_longest_within(most - 1, measure, limit, whole)
        return self.to_item(size) if size else None

    def keep(self, count: int) -> "KnowledgeFragment":
        """The best entities, the relationships between them, the axioms of their types."""
        entities = self.entities[:count]
        ids = {one.entity.id for one in entities}
        types = {one.entity.type.casefold() for one in entities}
        between = tuple(one for one in self.relationships if one.source in ids and one.target in ids)
        axioms = tuple(one for one in self.axioms if types.intersection(map(str.casefold, one.types)))
        kept = KnowledgeFragment(entities, between, axioms, self.config)
        kept._written = self._written
        return kept

    def render(self, omitted: int) -> str:
        """The text; it says how many entities are left out for want of room."""
        match self.config.format:
            case KnowledgeFormat.YAML:
                return render_yaml(self, omitted)
            case KnowledgeFormat.MARKDOWN:
                return render_markdown(self, omitted)
            case _:
                return render_json(self, omitted)

    def list_labels(self) -> dict[str, str]:
        """What entities are called: by name, with the id where two of them have the same."""
        names = Counter(one.entity.name for one in self.entities)
        return {
            one.entity.id: one.entity.name if names[one.entity.name] == 1 else f"{one.entity.name} ({one.entity.id})"
            for one in self.entities
        }

    def write_entity(self, entity: Entity, label: str) -> str:
        """An entity in YAML, as it is called here."""
        written = self._written.get((entity.id, label))
        if written is None:
            written = self._written[entity.id, label] = format_entity(entity, label, self.list_properties(entity))
        return written

    def list_properties(self, entity: Entity) -> dict[str, PropertyValue]:
        if not self.config.properties:
            return {}
        return dict(islice(entity.properties.items(), self.config.max_properties))


def describe_omitted(omitted: int, shown: int) -> str:
    return f"{shown} of {shown + omitted} relevant entities; the others did not fit."


def render_yaml(fragment: KnowledgeFragment, omitted: int) -> str:
    labels = fragment.list_labels()
    lines = ["entities:"]
    lines += [fragment.write_entity(one.entity, labels[one.entity.id]) for one in fragment.entities]
    if fragment.relationships:
        lines.append("relationships:")
        lines += [f"  - {_format_relationship(one, labels)}" for one in fragment.relationships]
    if fragment.axioms:
        lines.append("axioms:")
        lines += [
            f"  - types: {format_value(list(one.types))}\n    text: {format_scalar(one.text)}"
            for one in fragment.axioms
        ]
    if omitted:
        lines.append(f"# {describe_omitted(omitted, len(fragment.entities))}")
    return "\n".join(lines)


def format_entity(entity: Entity, label: str, properties: dict[str, PropertyValue]) -> str:
    """An entity in YAML."""
    lines = [f"  - name: {format_scalar(label)}", f"    type: {format_name(entity.type)}"]
    if entity.aliases:
        lines.append(f"    aliases: {format_value(list(entity.aliases))}")
    if properties:
        lines.append("    properties:")
        lines += [f"      {format_name(name)}: {format_value(value)}" for name, value in properties.items()]
    return "\n".join(lines)


def _format_relationship(one: Relationship, labels: dict[str, str]) -> str:
    said = describe_relationship(one, labels)
    return "{" + ", ".join(f"{format_name(name)}: {format_in_flow(value)}" for name, value in said.items()) + "}"


def describe_relationship(one: Relationship, labels: dict[str, str]) -> dict[str, Any]:
    """What it connects and how, then its properties; one that is called like an end does not take its place."""
    said: dict[str, Any] = {"from": labels[one.source], "type": one.type, "to": labels[one.target]}
    return said | {name: value for name, value in one.properties.items() if name not in said}


def render_markdown(fragment: KnowledgeFragment, omitted: int) -> str:
    labels = fragment.list_labels()
    lines = ["### Entities"]
    for one in fragment.entities:
        entity = one.entity
        also = f", also {', '.join(entity.aliases)}" if entity.aliases else ""
        lines.append(f"- **{flatten(labels[entity.id])}** ({flatten(entity.type)}){flatten(also)}")
        properties = fragment.list_properties(entity).items()
        lines += [f"  - {flatten(name)}: {flatten(format_plain(value))}" for name, value in properties]
    if fragment.relationships:
        lines += ["", "### Relationships"]
        for tie in fragment.relationships:
            more = "; ".join(f"{name}: {format_plain(value)}" for name, value in tie.properties.items())
            arrow = f"{labels[tie.source]} — {tie.type} → {labels[tie.target]}" + (f" ({more})" if more else "")
            lines.append(f"- {flatten(arrow)}")
    if fragment.axioms:
        lines += ["", "### Axioms"]
        lines += [f"- {flatten(', '.join(one.types))}: {flatten(one.text)}" for one in fragment.axioms]
    if omitted:
        lines += ["", f"_{describe_omitted(omitted, len(fragment.entities))}_"]
    return "\n".join(lines)


def render_json(fragment: KnowledgeFragment, omitted: int) -> str:
    labels = fragment.list_labels()
    said: dict[str, Any] = {"entities": []}
    for one in fragment.entities:
        entity = one.entity
        described: dict[str, Any] = {"name": labels[entity.id], "type": entity.type, "aliases": list(entity.aliases)}
        described["properties"] = fragment.list_properties(entity)
        said["entities"].append({name: value for name, value in described.items() if value})
    if fragment.relationships:
        said["relationships"] = [describe_relationship(one, labels) for one in fragment.relationships]
    if fragment.axioms:
        said["axioms"] = [{"types": list(one.types), "text": one.text} for one in fragment.axioms]
    if omitted:
        said |= {"truncated": True, "note": describe_omitted(omitted, len(fragment.entities))}
    return orjson.dumps(said).decode()


def flatten(text: str) -> str:
    """A text in one line."""
    return " ".join(text.split())


def format_plain(value: PropertyValue) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def format_value(value: PropertyValue) -> str:
    """A value after its key in YAML."""
    if isinstance(value, list):
        return "[" + ", ".join(map(format_in_flow, value)) + "]"
    return format_scalar(value)


def format_in_flow(value: PropertyValue) -> str:
    """A value inside brackets, where commas and brackets mean something."""
    if isinstance(value, list):
        return format_value(value)
    if isinstance(value, str) and "," in value:
        return orjson.dumps(value).decode()
    return format_scalar(value)


@lru_cache(4096)
def format_name(name: str) -> str:
    """A scalar that comes again and again: a type, or the name of a property."""
    return format_scalar(name)


def format_scalar(value: Any) -> str:
    """A scalar in YAML; texts that could be read as anything else are quoted."""
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value[-1] != " " and not is_word(value)
        return value if plain else orjson.dumps(value).decode()
    return orjson.dumps(value).decode()


def is_word(value: str) -> bool:
    """Whether YAML takes a text for a truth value or for nothing."""
    return len(value) <= LONGEST_WORD and value.casefold() in _WORDS
