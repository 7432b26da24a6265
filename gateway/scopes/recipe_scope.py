"""The recipe of a request's task, and whether the request has what it needs."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from gateway.domain.node import Node
from gateway.domain.recipe import ContentNeed, Recipe
from gateway.domain.scope import Scope
from gateway.domain.snapshot import Snapshot
from gateway.errors import ContentRequired, InvalidRequest, ReferenceRequired, UnknownAlias, quote

MOST_ROLES, MOST_NAMES = 50, 100  # of a request, and of one role
SUGGESTED = 1_000  # nodes among which similar names are looked for


def apply_recipe(scope: Scope, snapshot: Snapshot) -> Scope:
    """The scope with the recipe that its task names; raises UnknownAlias, ContentRequired or ReferenceRequired."""
    asked = scope.request
    task = asked.task or ""
    if task not in snapshot.recipes:
        raise UnknownAlias("task", task, snapshot.recipes, param=asked.where("task"))
    recipe = snapshot.recipes[task]
    refs = {role: tuple(find_nodes(role, value, scope, snapshot)) for role, value in read_refs(asked.refs)}
    require_content(recipe, scope)
    require_refs(recipe, scope, refs.keys())
    return replace(scope, recipe=recipe, refs=refs)


def require_content(recipe: Recipe, scope: Scope) -> None:
    node, param = scope.node, scope.request.where("content")
    kinds = f" of type {' or '.join(recipe.types)}" if recipe.types else ""
    if node is None and recipe.content is ContentNeed.REQUIRED:
        message = f"The task {recipe.alias} needs content{kinds}: name it in x-context-content."
        raise ContentRequired(message, param="x-context-content")
    if node is not None and recipe.content is not ContentNeed.NEVER and recipe.types and node.type not in recipe.types:
        message = f"The task {recipe.alias} needs content{kinds}, but {quote(node.path)} is of type {quote(node.type)}."
        raise ContentRequired(message, param=param)


def require_refs(recipe: Recipe, scope: Scope, roles: Any) -> None:
    """A request that is about no node names what it is about by role."""
    missing = [role for role in recipe.needs if role not in roles]
    if missing and (scope.node is None or recipe.content is ContentNeed.NEVER):
        message = f"The task {recipe.alias} needs {missing[0]} in context.refs, or content."
        raise ReferenceRequired(message, param=f"context.refs.{missing[0]}")


def read_refs(refs: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Roles and the names given for them; a single name may stand for a list of one."""
    if len(refs) > MOST_ROLES:
        raise InvalidRequest(f"context.refs has more than {MOST_ROLES} roles.", param="context.refs")
    for role, value in refs.items():
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(names) > MOST_NAMES:
            message = f"context.refs.{role[:64]} must be an id, or a list of at most {MOST_NAMES} ids."
            raise InvalidRequest(message, param=f"context.refs.{role[:64]}")
        yield role, names


def find_nodes(role: str, names: list[str], scope: Scope, snapshot: Snapshot) -> Iterator[Node]:
    """The nodes that a role names; one that the caller may not read counts as unknown."""
    tree, readers = snapshot.tree, scope.readers
    for name in dict.fromkeys(names):
        node = tree.find(name)
        if node is None or not tree.may_read(readers, node):
            some = list(tree.ids)[:SUGGESTED]
            visible = (id for id in some if tree.may_read(readers, tree.nodes[tree.ids[id]]))
            raise UnknownAlias("content", name, visible, param=f"context.refs.{role[:64]}")
        yield node
