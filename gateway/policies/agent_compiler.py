"""Compiles profiles, agents, prompts and recipes one by one; their references are checked when a set is assembled."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec
from pydantic import BaseModel

from gateway.domain.agent import (
    Agent,
    Budget,
    ClientToolLimit,
    CollectorSettings,
    ModelDefaults,
    Profile,
    Prompt,
    RankingWeights,
    SelectionSettings,
    ToolFilter,
)
from gateway.domain.recipe import Recipe
from gateway.errors import ALIAS_FAULT, Fault
from gateway.policies.context_compiler import title_from_alias
from gateway.policies.files import PolicyEntry
from gateway.policies.recipe_shapes import RecipeShape, make_recipe
from gateway.policies.shapes import (
    AgentShape,
    CollectorShape,
    ProfileShape,
    PromptShape,
    SamplingShape,
    find_alias_fault,
)
from gateway.validation import format_suggestion

Model = TypeVar("Model", bound=BaseModel)


class AgentCompiler(msgspec.Struct, frozen=True):
    """Compiles entries into domain objects; faults are collected, not raised."""

    collectors: Mapping[str, type[BaseModel]] | None = None  # their options by name; None: they are not checked
    faults: list[Fault] = msgspec.field(default_factory=list)

    def compile_profile(self, entry: PolicyEntry) -> Profile | None:
        shape = self._validate(ProfileShape, entry, find_alias_fault(entry.alias, reserved=False))
        if shape is None:
            return None
        return Profile(
            alias=entry.alias,
            name=shape.name or title_from_alias(entry.alias),
            contexts=tuple(shape.contexts),
            defaults=_make_defaults(shape),
            budget=Budget(shape.budget.total, shape.budget.max, _list_shares(shape)),
            placement=shape.placement,
        )

    def compile_agent(self, entry: PolicyEntry) -> Agent | None:
        shape = self._validate(AgentShape, entry, find_alias_fault(entry.alias))
        if shape is None:
            return None
        self.faults.extend(self._find_collector_faults(shape, entry))
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
            budget=Budget(budget.total, budget.total if budget.max is None else budget.max, _list_shares(shape)),
            placement=shape.placement,
            selection=SelectionSettings.from_data(shape.selection.model_dump()),
            max_turns=shape.max_turns,
            tool_permission=shape.tool_permission,
            retain=shape.retain,
            tools=ToolFilter(tuple(shape.tools.allow), tuple(shape.tools.deny)),
            client_tools=ClientToolLimit(shape.client_tools.narrow, tuple(shape.client_tools.keep)),
            tool_expansion=shape.tool_expansion,
            ranking=RankingWeights(**shape.ranking.model_dump()) if shape.ranking is not None else None,
            requires=tuple(shape.requires),
            collectors={name: _make_collector_settings(one) for name, one in shape.collectors.items()},
            join=shape.join,
        )

    def compile_prompt(self, entry: PolicyEntry) -> Prompt | None:
        shape = self._validate(PromptShape, entry, find_alias_fault(entry.alias, reserved=False))
        if shape is None:
            return None
        return Prompt(entry.alias, shape.name or title_from_alias(entry.alias), shape.template, tuple(shape.contexts))

    def compile_recipe(self, entry: PolicyEntry) -> Recipe | None:
        shape = self._validate(RecipeShape, entry, find_alias_fault(entry.alias, reserved=False))
        if shape is None:
            return None
        for place, name in enumerate(shape.collectors if self.collectors is not None else ()):
            if name not in (self.collectors or ()):
                message = f"no collector has this name{format_suggestion(name, self.collectors or ())}"
                self.faults.append((entry.location / "collectors" / place).fault(message))
        return make_recipe(entry.alias, shape.name or title_from_alias(entry.alias), shape)

    def _find_collector_faults(self, shape: AgentShape, entry: PolicyEntry) -> Iterator[Fault]:
        if self.collectors is None:
            return
        for name, one in shape.collectors.items():
            place = entry.location / "collectors" / name
            if name not in self.collectors:
                yield place.fault(f"no collector has this name{format_suggestion(name, self.collectors)}")
                continue
            yield from place.validate(self.collectors[name], dict(one.__pydantic_extra__ or {}))[1]

    def _validate(self, model: type[Model], entry: PolicyEntry, alias_fault: str | None) -> Model | None:
        if alias_fault:
            self.faults.append(entry.location.fault(alias_fault, ALIAS_FAULT))
        shape, faults = entry.location.validate(model, entry.data)
        self.faults.extend(faults)
        return shape


def _list_shares(shape: SamplingShape) -> tuple[tuple[str, int], ...]:
    shares = shape.budget.shares
    return tuple(shares.model_dump(exclude_none=True).items()) if shares is not None else ()


def _make_collector_settings(shape: CollectorShape) -> CollectorSettings:
    return CollectorSettings(shape.enabled, shape.priority, dict(shape.__pydantic_extra__ or {}))


def _make_defaults(shape: SamplingShape) -> ModelDefaults:
    return ModelDefaults(shape.model, shape.temperature, shape.top_p, shape.max_tokens)
