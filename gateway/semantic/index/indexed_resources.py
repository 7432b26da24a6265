"""Resources under the keys of the index: those of the files are shared, those of a workspace are its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import msgspec
from msgspec.structs import replace

from gateway.domain.resource import Resource
from gateway.domain.snapshot import EMPTY_SNAPSHOT, Snapshot

SEPARATOR = "\0"  # occurs in no workspace name and in no id


class WorkspaceResources(msgspec.Struct, frozen=True):
    """What one workspace stores besides the resources of the files."""

    snapshot: Snapshot
    keys: Mapping[str, str]  # by id
    resources: Mapping[str, Resource]  # by key, which also stands for their id

    @classmethod
    def build(cls, workspace: str, snapshot: Snapshot, base: Snapshot) -> Self:
        in_files = base.resources.get
        # Identity first: comparing the resources of the files one by one for every workspace takes long.
        stored = [
            one for name, one in snapshot.resources.items() if one is not in_files(name) and one != in_files(name)
        ]
        keys = {one.id: f"{workspace}{SEPARATOR}{one.id}" for one in stored}
        return cls(snapshot, keys, {keys[one.id]: replace(one, id=keys[one.id]) for one in stored})


class IndexedResources(msgspec.Struct, frozen=True):
    """The resources of all workspaces under keys that no two of them share, unless they share the resource."""

    generation: int  # counts what was submitted
    base: Snapshot
    own: Mapping[str, WorkspaceResources]  # by workspace
    resources: Mapping[str, Resource]  # by key, which also stands for their id

    @classmethod
    def empty(cls) -> Self:
        return cls(0, EMPTY_SNAPSHOT, {}, {})

    def update(self, base: Snapshot, workspaces: Mapping[str, Snapshot]) -> Self:
        """The next generation; a workspace whose snapshot is the same object is not compared again.

        The resources of the files come first, so that what one workspace stores never moves those of another.
        """
        own: dict[str, WorkspaceResources] = {}
        for name, snapshot in workspaces.items():
            former = self.own.get(name) if base is self.base else None
            if former is None or former.snapshot is not snapshot:
                former = WorkspaceResources.build(name, snapshot, base)
            own[name] = former
        resources = dict(base.resources)
        for one in own.values():
            resources |= one.resources
        return type(self)(self.generation + 1, base, own, resources)

    def get_keys(self, workspace: str, names: Sequence[str]) -> Sequence[str]:
        """The keys of these ids of a workspace; an id that it lacks never gets the key of another's resource."""
        own = self.own.get(workspace)
        return [own.keys.get(name, name) for name in names] if own is not None and own.keys else names


def get_workspace(key: str) -> str:
    """The workspace whose resource this is; "": it is in a file, which all share."""
    return key.rpartition(SEPARATOR)[0]


def get_resource_id(key: str) -> str:
    """The id by which its own workspace knows a resource."""
    return key.rpartition(SEPARATOR)[2]
