"""Thresholds of a kind of resource, where policies and the configuration name them."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from gateway.domain.agent import SelectionSettings, Thresholds
from gateway.policies.shapes import SelectionShape
from gateway.settings import SemanticSettings


@pytest.mark.parametrize("model", [SelectionShape, SemanticSettings])
def test_a_kind_may_have_thresholds_of_its_own(model: type[BaseModel]) -> None:
    checked = model.model_validate({"top_k": 20, "kinds": {"tool": {"top_n": 3}}})
    assert SelectionSettings.of(checked.model_dump()).of_kind("tool") == Thresholds(top_k=20, top_n=3)


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
