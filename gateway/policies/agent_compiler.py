"""Compiles profiles, agents and prompts one by one; their references are checked when a set is assembled."""

from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel

from gateway.domain.agent import (
    Agent,
    Budget,
    ClientToolLimit,
    ModelDefaults,
    Profile,
    Prompt,
    SelectionSettings,
    ToolFilter,
)
from gateway.errors import ALIAS_FAULT, Fault
from gateway.policies.context_compiler import title_from_alias
from gateway.policies.files import PolicyEntry
from gateway.policies.shapes import AgentShape, ProfileShape, PromptShape, SamplingShape, find_alias_fault

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class AgentCompiler:
    """Compiles entries into domain objects; faults are collected, not raised."""

    faults: list[Fault] = field(default_factory=list)

    def compile_profile(self, entry: PolicyEntry) -> Profile | None:
        shape = self._validate(ProfileShape, entry, find_alias_fault(entry.alias, reserved=False))
        if shape is None:
            return None
        return Profile(
            alias=entry.alias,
            name=shape.name or title_from_alias(entry.alias),
            contexts=tuple(shape.contexts),
            defaults=_make_defaults(shape),
            budget=Budget(shape.budget.total, shape.budget.max),
            placement=shape.placement,
        )

    def compile_agent(self, entry: PolicyEntry) -> Agent | None:
        shape = self._validate(AgentShape, entry, find_alias_fault(entry.alias))
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
            defaults=_make_defaults(shape),
            # A caller may lower an agent's budget; only the policy can raise it.
            budget=Budget(budget.total, budget.total if budget.max is None else budget.max),
            placement=shape.placement,
            selection=SelectionSettings.from_data(shape.selection.model_dump()),
            max_turns=shape.max_turns,
            tool_permission=shape.tool_permission,
            retain=shape.retain,
            tools=ToolFilter(tuple(shape.tools.allow), tuple(shape.tools.deny)),
            client_tools=ClientToolLimit(shape.client_tools.narrow, tuple(shape.client_tools.keep)),
            tool_expansion=shape.tool_expansion,
            join=shape.join,
        )

    def compile_prompt(self, entry: PolicyEntry) -> Prompt | None:
        shape = self._validate(PromptShape, entry, find_alias_fault(entry.alias, reserved=False))
        if shape is None:
            return None
        return Prompt(entry.alias, shape.name or title_from_alias(entry.alias), shape.template, tuple(shape.contexts))

    def _validate(self, model: type[Model], entry: PolicyEntry, alias_fault: str | None) -> Model | None:
        if alias_fault:
            self.faults.append(entry.location.fault(alias_fault, ALIAS_FAULT))
        shape, faults = entry.location.validate(model, entry.data)
        self.faults.extend(faults)
        return shape


def _make_defaults(shape: SamplingShape) -> ModelDefaults:
    return ModelDefaults(shape.model, shape.temperature, shape.top_p, shape.max_tokens)
