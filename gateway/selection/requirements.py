"""Whether a selection has what its recipe, its agent and its resources require."""

from collections.abc import Iterator
from typing import NamedTuple

from gateway.domain.collector import Category, FoundItem
from gateway.domain.scope import Scope
from gateway.domain.selection import Selection


class Shortfall(NamedTuple):
    """Something that is required and not there."""

    code: str  # required_layer, required_category, required_resource or over_budget
    message: str


def find_shortfalls(scope: Scope, selection: Selection) -> Iterator[Shortfall]:
    """What a context lacks; a valid one lacks nothing."""
    yield from _find_missing_layers(scope, selection)
    spent = selection.tokens
    for category in scope.agent.requires if scope.agent is not None else ():
        if not _has_placed(Category(category), selection):
            yield Shortfall("required_category", f"The agent requires something in `{category}`; there is nothing.")
    for left in (*selection.dropped, *selection.catalogue):
        resource = left.candidate.resource
        if resource.required and left.reason not in ("language", "excluded", "overridden"):
            yield Shortfall("required_resource", f"The resource {resource.id} is required and not there.")
    total = sum(spent.values())
    if total > selection.budget:
        yield Shortfall("over_budget", f"The context needs {total} tokens and has {selection.budget}.")


def _find_missing_layers(scope: Scope, selection: Selection) -> Iterator[Shortfall]:
    recipe = scope.recipe
    if recipe is None:
        return
    there = {_get_layer(one.candidate.resource.data) for one in selection.volatile}
    there |= {_get_layer(one.candidate.resource.data) for one in selection.dropped if one.reason == "in_request"}
    for number, layer in enumerate(recipe.layers):
        if layer.required and number not in there:
            message = f"The task {recipe.alias} requires layer {number + 1}, {layer.take}; there is nothing of it."
            yield Shortfall("required_layer", message)


def _get_layer(data: object) -> int | None:
    return data.layer if isinstance(data, FoundItem) else None


def _has_placed(category: Category, selection: Selection) -> bool:
    placed = (*selection.stable, *selection.volatile, *selection.tools)
    return any(one.category is category for one in placed)


def is_truncated(category: Category, selection: Selection) -> bool:
    """Whether something of a category was cut, did not fit, or was too much to look at."""
    cut = any(one.truncated for one in selection.volatile if one.category is category)
    limited = any(one.truncated for one in selection.collectors if one.category is category)
    return cut or limited or any(one.category == category for one in selection.warnings)
