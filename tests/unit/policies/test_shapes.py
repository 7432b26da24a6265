"""The shapes of policies: values of another type are refused, and thresholds may be given for one kind of resource."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from gateway.domain.agent import SelectionSettings, Thresholds
from gateway.policies.shapes import AgentShape, ContextShape, ResourceShape, SelectionShape
from gateway.settings import SemanticSettings

TEXT = {"type": "text"}


@pytest.mark.parametrize(
    ("shape", "fields"),
    [
        (ContextShape, {"valid_until": 0}),
        (ContextShape, {"valid_from": "0"}),
        (ContextShape, {"default": 0}),
        (ResourceShape, {**TEXT, "required": "yes"}),
        (ResourceShape, {**TEXT, "priority": True}),
        (AgentShape, {"max_turns": "5"}),
        (AgentShape, {"temperature": False}),
        (AgentShape, {"budget": "4000"}),
        (AgentShape, {"budget": True}),
        (AgentShape, {"selection": {"kinds": {"tool": {"top_n": False}}}}),
    ],
)
def test_a_value_of_another_kind_is_a_fault(shape: type[Any], fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        shape.model_validate(fields)


def test_what_may_be_written_shorter_still_may_be() -> None:
    agent = AgentShape.model_validate({"budget": 4000, "contexts": "house", "temperature": 1})
    assert (agent.budget.total, agent.contexts, agent.temperature) == (4000, ["house"], 1.0)
    context = ContextShape.model_validate({"valid_from": "2026-01-01", "valid_until": "2026-02-01T10:00:00+02:00"})
    assert context.valid_from is not None
    assert context.valid_from.isoformat() == "2026-01-01T00:00:00+00:00"


@pytest.mark.parametrize("model", [SelectionShape, SemanticSettings])
def test_a_kind_may_have_thresholds_of_its_own(model: type[BaseModel]) -> None:
    checked = model.model_validate({"top_k": 20, "kinds": {"tool": {"top_n": 3}}})
    assert SelectionSettings.from_data(checked.model_dump()).get_for_kind("tool") == Thresholds(top_k=20, top_n=3)


@pytest.mark.parametrize("model", [SelectionShape, SemanticSettings])
@pytest.mark.parametrize(
    "kinds",
    [
        {"rule": {}},
        {"tools": {}},
        {"tool": {"preset": "normal"}},
        {"tool": {"top_n": -1}},
        {"tool": {"min_score": 2}},
        {"tool": {"top_k": 0}},
    ],
)
def test_an_unknown_kind_and_a_wrong_threshold_are_faults(model: type[BaseModel], kinds: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model.model_validate({"kinds": kinds})
