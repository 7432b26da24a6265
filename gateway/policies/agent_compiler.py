"""Compiles profiles, agents and prompts, each by itself; what they refer to is checked when a set is put together."""

from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel

from gateway.domain.agent import Agent, Budget, ModelDefaults, Profile, Prompt, SelectionSettings
from gateway.errors import Fault
from gateway.policies.context_compiler import title_from_alias
from gateway.policies.files import PolicyEntry
from gateway.policies.shapes import AgentShape, ProfileShape, PromptShape, Sampling, alias_fault
from gateway.validation import validate

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Compiler:
    """Turns an entry into its domain object; faults are gathered, not raised."""

    faults: list[Fault] = field(default_factory=list)

    def profile(self, entry: PolicyEntry) -> Profile | None:
        shape = self._shape(ProfileShape, entry, alias_fault(entry.alias, reserved=False))
        if shape is None:
            return None
        return Profile(
            alias=entry.alias,
            name=shape.name or title_from_alias(entry.alias),
            contexts=tuple(shape.contexts),
            defaults=_defaults(shape),
            budget=Budget(shape.budget.total, shape.budget.max),
            placement=shape.placement,
        )

    def agent(self, entry: PolicyEntry) -> Agent | None:
        shape = self._shape(AgentShape, entry, alias_fault(entry.alias))
        if shape is None:
            return None
        budget = shape.budget
        return Agent(
            alias=entry.alias,
            name=shape.name or title_from_alias(entry.alias),
            description=shape.description,
            instructions=shape.instructions,
            profile=shape.profile,
            contexts=tuple(shape.contexts),
            inject=shape.inject,
            defaults=_defaults(shape),
            # A caller may lower what an agent spends; more needs the policy's word.
            budget=Budget(budget.total, budget.total if budget.max is None else budget.max),
            placement=shape.placement,
            selection=SelectionSettings.of(shape.selection.model_dump()),
            max_turns=shape.max_turns,
        )

    def prompt(self, entry: PolicyEntry) -> Prompt | None:
        shape = self._shape(PromptShape, entry, alias_fault(entry.alias, reserved=False))
        if shape is None:
            return None
        return Prompt(entry.alias, shape.name or title_from_alias(entry.alias), shape.template, tuple(shape.contexts))

    def _shape(self, model: type[Model], entry: PolicyEntry, wrong_alias: str | None) -> Model | None:
        if wrong_alias:
            self.faults.append(entry.place.fault(wrong_alias))
        shape, faults = validate(model, entry.data, entry.place.document, entry.place.keys)
        self.faults.extend(faults)
        return shape


def _defaults(shape: Sampling) -> ModelDefaults:
    return ModelDefaults(shape.model, shape.temperature, shape.top_p, shape.max_tokens)
