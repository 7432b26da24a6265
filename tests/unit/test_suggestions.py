"""Hints for misspelt names, within bounds."""

from pydantic import BaseModel, ConfigDict

from gateway.errors import COMPARED_WORDS, QUOTED, UnknownAlias, find_similar
from gateway.strict_yaml import YamlDocument
from gateway.validation import MOST_SUGGESTIONS, validate

MANY = [f"resource-{number}" for number in range(10_000)]


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")

    alias: str = ""


def test_a_long_alias_is_cut_in_the_message() -> None:
    message = UnknownAlias("agent", "x" * 1_000_000, ["support"], param="agent").message
    assert len(message) < QUOTED + 50
    assert "xxx…" in message


def test_the_nearest_of_many_names_is_found_by_its_beginning_or_its_end() -> None:
    assert "editorial" in find_similar("editorail", [*MANY, "editorial"], 3)
    assert "support-team" in find_similar("uspport-team", [*MANY, "support-team"], 3)


def test_few_names_are_all_compared() -> None:
    few = [f"{number:03}-guide" for number in range(COMPARED_WORDS)]
    assert find_similar("050-giude", few, 1) == ["050-guide"]


def test_only_the_first_faults_come_with_a_hint() -> None:
    _, faults = validate(Shape, {f"alia{n}": 1 for n in range(100)}, YamlDocument("f", None, {}), ())
    assert len(faults) == 100
    assert sum("did you mean" in fault.message for fault in faults) == MOST_SUGGESTIONS
