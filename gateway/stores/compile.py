"""Compiles profiles, agents, prompts and the content tree, and checks what they refer to."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel

from gateway.domain.agent import Agent, Budget, ModelDefaults, Profile, Prompt, SelectionSettings
from gateway.domain.node import Node
from gateway.errors import Fault
from gateway.stores.compile_resources import humanised
from gateway.stores.policy_files import Entry, Place, Sections, entries
from gateway.stores.policy_models import (
    AgentShape,
    NodeShape,
    ProfileShape,
    PromptShape,
    Sampling,
    alias_fault,
    node_key_fault,
)
from gateway.validation import nearest, validated

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Compiler:
    """Turns entries into domain objects; faults are gathered, not raised.

    An object that cannot be built still counts as known, so that one mistake is not reported twice.
    """

    sections: Sections
    faults: list[Fault] = field(default_factory=list)

    def profile(self, entry: Entry) -> Profile | None:
        shape = self._shape(ProfileShape, entry, alias_fault(entry.alias, reserved=False))
        if shape is None:
            return None
        return Profile(
            alias=entry.alias,
            name=shape.name or humanised(entry.alias),
            contexts=tuple(shape.contexts),
            defaults=_defaults(shape),
            budget=Budget(shape.budget.total, shape.budget.max),
            placement=shape.placement,
        )

    def agent(self, entry: Entry) -> Agent | None:
        shape = self._shape(AgentShape, entry, alias_fault(entry.alias))
        if shape is None:
            return None
        budget = shape.budget
        return Agent(
            alias=entry.alias,
            name=shape.name or humanised(entry.alias),
            description=shape.description,
            instructions=shape.instructions,
            profile=shape.profile,
            contexts=tuple(shape.contexts),
            inject=shape.inject,
            defaults=_defaults(shape),
            # A caller may lower what an agent spends; more needs the policy's word.
            budget=Budget(budget.total, budget.total if budget.max is None else budget.max),
            placement=shape.placement,
            selection=SelectionSettings(**shape.selection.model_dump()),
            max_turns=shape.max_turns,
        )

    def prompt(self, entry: Entry) -> Prompt | None:
        shape = self._shape(PromptShape, entry, alias_fault(entry.alias, reserved=False))
        if shape is None:
            return None
        return Prompt(entry.alias, shape.name or humanised(entry.alias), shape.template, tuple(shape.contexts))

    def nodes(self, roots: Iterable[Entry]) -> tuple[dict[str, Node], dict[str, str]]:
        """The content tree by path, and the path of every id."""
        nodes: dict[str, Node] = {}
        places: dict[str, Place] = {}
        waiting: list[tuple[str | None, Entry]] = [(None, root) for root in reversed(list(roots))]
        while waiting:
            parent, entry = waiting.pop()
            path = entry.alias if parent is None else f"{parent}/{entry.alias}"
            nodes[path] = self._node(entry, path, parent)
            places[path] = entry.place
            given = entry.data.get("children") if isinstance(entry.data, dict) else None
            children, faults = entries(given, entry.place / "children")
            self.faults.extend(faults)
            waiting += [(path, child) for child in reversed(children)]
        return nodes, self._ids(nodes, places)

    def _node(self, entry: Entry, path: str, parent: str | None) -> Node:
        # A node may be written as nothing but its key.
        bare = Entry(entry.alias, entry.place, {} if entry.data is None else entry.data)
        shape = self._shape(NodeShape, bare, node_key_fault(entry.alias)) or NodeShape()
        return Node(
            id=shape.id or path,
            path=path,
            parent=parent,
            type=shape.type,
            title=shape.title or humanised(entry.alias),
            body=shape.body,
            contexts=tuple(shape.contexts),
            merge=shape.inherit == "merge",
            readers=tuple(shape.readers),
            links=tuple(shape.links),
        )

    def _ids(self, nodes: dict[str, Node], places: dict[str, Place]) -> dict[str, str]:
        ids: dict[str, str] = {}
        for path, node in nodes.items():
            place = places[path] / "id"
            if node.id != path and node.id in nodes:
                self.faults.append(place.fault(f"{node.id!r} is the path of another node"))
            elif node.id in ids:
                self.faults.append(place.fault(f"{node.id!r} is already the id of {ids[node.id]}"))
            else:
                ids[node.id] = path
        return ids

    def _shape(self, model: type[Model], entry: Entry, wrong_alias: str | None) -> Model | None:
        if wrong_alias:
            self.faults.append(entry.place.fault(wrong_alias))
        shape, faults = validated(model, entry.data, entry.place.document, entry.place.keys)
        self.faults.extend(faults)
        self._check_references(entry)
        return shape

    def _check_references(self, entry: Entry) -> None:
        """Looks at the data as written, so that unknown aliases are found in an entry with other faults too."""
        if not isinstance(entry.data, dict):
            return
        contexts, profile = entry.data.get("contexts"), entry.data.get("profile")
        for position, alias in enumerate(contexts if isinstance(contexts, list) else []):
            self._refer("context", alias, entry.place / "contexts" / position)
        self._refer("context", contexts, entry.place / "contexts")
        self._refer("profile", profile, entry.place / "profile")

    def _refer(self, noun: str, alias: object, place: Place) -> None:
        known = self.sections[f"{noun}s"]
        if isinstance(alias, str) and alias not in known:
            self.faults.append(place.fault(f"there is no {noun} {alias!r}{nearest(alias, known)}"))


def _defaults(shape: Sampling) -> ModelDefaults:
    return ModelDefaults(shape.model, shape.temperature, shape.top_p, shape.max_tokens)
