"""What the index calls a resource: one of the files belongs to every workspace, a stored one to its own only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from gateway.domain.resource import Resource
from gateway.domain.snapshot import EMPTY_SNAPSHOT, Snapshot

SEPARATOR = "\0"  # in no workspace and in no id


@dataclass(frozen=True, slots=True)
class Own:
    """What one workspace has besides the files' resources."""

    snapshot: Snapshot
    keys: Mapping[str, str]  # by id
    resources: Mapping[str, Resource]  # by key, and with it for an id

    @classmethod
    def of(cls, workspace: str, snapshot: Snapshot, base: Snapshot) -> Self:
        found = base.resources.get
        # The same object first: to compare resources of files one by one for every workspace takes long.
        stored = [one for name, one in snapshot.resources.items() if one is not found(name) and one != found(name)]
        keys = {one.id: f"{workspace}{SEPARATOR}{one.id}" for one in stored}
        return cls(snapshot, keys, {keys[one.id]: replace(one, id=keys[one.id]) for one in stored})


@dataclass(frozen=True, slots=True)
class Holdings:
    """The resources of all workspaces under keys that no two of them share, unless they share the resource."""

    number: int  # counts what was submitted
    base: Snapshot
    own: Mapping[str, Own]  # by workspace
    resources: Mapping[str, Resource]  # by key, and with it for an id

    @classmethod
    def none(cls) -> Self:
        return cls(0, EMPTY_SNAPSHOT, {}, {})

    def followed(self, base: Snapshot, workspaces: Mapping[str, Snapshot]) -> Self:
        """What comes after; a workspace whose policies are the same objects is not looked at again.

        The files' resources come first, so that what a workspace stores never moves those of another.
        """
        own: dict[str, Own] = {}
        for name, snapshot in workspaces.items():
            former = self.own.get(name) if base is self.base else None
            if former is None or former.snapshot is not snapshot:
                former = Own.of(name, snapshot, base)
            own[name] = former
        resources = dict(base.resources)
        for one in own.values():
            resources |= one.resources
        return type(self)(self.number + 1, base, own, resources)

    def keys(self, workspace: str, names: Sequence[str]) -> Sequence[str]:
        """What the index calls these resources of a workspace; an id that it does not hold has no key of another's."""
        own = self.own.get(workspace)
        return [own.keys.get(name, name) for name in names] if own is not None and own.keys else names


def id_of(key: str) -> str:
    """The id of a resource as its own workspace knows it."""
    return key.rpartition(SEPARATOR)[2]
