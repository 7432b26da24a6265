"""What the index calls a resource: one of the files belongs to every workspace, a stored one to its own only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from gateway.domain.resource import Resource
from gateway.domain.snapshot import Snapshot

SEPARATOR = "\0"  # in no workspace and in no id


@dataclass(frozen=True, slots=True)
class Holdings:
    """The resources of all workspaces under keys that no two of them share, unless they share the resource."""

    number: int  # counts what was submitted
    resources: Mapping[str, Resource]  # by key, and with it for an id
    own: Mapping[str, Mapping[str, str]]  # by workspace: ids of what is stored there → keys

    @classmethod
    def of(cls, number: int, base: Snapshot, workspaces: Mapping[str, Snapshot]) -> Self:
        """The files' resources first, so that what a workspace stores never moves those of another."""
        resources, own = dict(base.resources), {}
        for workspace, snapshot in workspaces.items():
            stored = {name: one for name, one in snapshot.resources.items() if one != base.resources.get(name)}
            own[workspace] = {name: f"{workspace}{SEPARATOR}{name}" for name in stored}
            resources |= {own[workspace][name]: replace(one, id=own[workspace][name]) for name, one in stored.items()}
        return cls(number, resources, own)

    def keys(self, workspace: str, names: Sequence[str]) -> Sequence[str]:
        """What the index calls these resources of a workspace; an id that it does not hold has no key of another's."""
        own = self.own.get(workspace)
        return [own.get(name, name) for name in names] if own else names


def id_of(key: str) -> str:
    """The id of a resource as its own workspace knows it."""
    return key.rpartition(SEPARATOR)[2]
