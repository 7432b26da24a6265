"""Policies say what they mean: nothing is taken for a value of another kind."""

from typing import Any

import pytest
from pydantic import ValidationError

from gateway.policies.shapes import AgentShape, ContextShape, ResourceShape

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
