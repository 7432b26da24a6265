"""What contexts can do beyond other objects: being the global default, holding resources."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from gateway.control.base import Object, Tags
from gateway.control.kinds import stored_form
from gateway.control.objects import Objects
from gateway.control.pointers import pointer
from gateway.control.received import resource_data, resource_id
from gateway.control.writer import Change, PolicyWriter
from gateway.domain.principal import Principal
from gateway.errors import Conflict, Fault, FieldError, InvalidObject, NotFound

KIND = "contexts"

Resources = dict[str, Any]


class Contexts:
    """The resources of contexts, each change a new version of the context, and the global default."""

    def __init__(self, objects: Objects, desk: PolicyWriter) -> None:
        self._objects = objects
        self._desk = desk

    def default(self, workspace: str) -> Object:
        """The global default; raises NotFound."""
        found = self._objects.default(workspace)
        if found is None:
            raise NotFound("No context is the global default.")
        return found

    async def set_default(self, caller: Principal, name: str, tags: Tags = None) -> Object:
        """Make a context the global default in place of the former, both at once."""
        async with self._desk.turn(caller.workspace):
            current = self._objects.get(caller.workspace, KIND, name)
            current.require(tags)
            record, former = current.own(), self._objects.default(caller.workspace)
            if former is None or former.alias != current.alias:
                changes = [Change(KIND, current.alias, {**current.data, "default": True}, record)]
                if former is not None and former.record is None:
                    raise Conflict(
                        f"{former.alias!r} is the global default by the file {former.file}; change it there."
                    )
                if former is not None:
                    without = {key: value for key, value in former.data.items() if key != "default"}
                    changes.append(Change(KIND, former.alias, without, former.own()))
                await self._desk.tried(caller.workspace, {(KIND, one.alias): one.body for one in changes})
                await self._desk.commit(caller, "update", changes, tags)
        return self._objects.get(caller.workspace, KIND, current.alias)

    def resource(self, workspace: str, name: str, id: str) -> tuple[Object, Any]:
        """A context and the data of one of its resources; raises NotFound."""
        context = self._objects.get(workspace, KIND, name)
        return context, _one(context, resources_of(context), id)

    async def add(self, caller: Principal, name: str, sent: Any, tags: Tags = None) -> tuple[Object, str]:
        """Put a resource behind the others; its context in the new version, and its id."""
        id = resource_id(sent)
        if isinstance(id, FieldError):
            raise InvalidObject("The resource needs an id.", [id])
        async with self._desk.turn(caller.workspace):
            context = self._opened(caller.workspace, name, tags)
            resources = resources_of(context)
            if id in resources:
                raise Conflict(f"{context.alias!r} has a resource {id!r} already.")
            resources[id] = resource_data(sent)
            return await self._save(caller, context, resources, tags, id), id

    async def replace(self, caller: Principal, where: tuple[str, str], sent: Any, tags: Tags = None) -> Object:
        """Replace a resource at its place; `where` is (context, id)."""
        async with self._desk.turn(caller.workspace):
            context = self._opened(caller.workspace, where[0], tags)
            resources, id = resources_of(context), where[1]
            _one(context, resources, id)
            named = resource_id(sent) if isinstance(sent, dict) and {"id", "alias"} & sent.keys() else id
            if named != id:
                raise InvalidObject("An id never changes.", [FieldError("/id", f"an id never changes; this is {id!r}")])
            resources[id] = resource_data(sent)
            return await self._save(caller, context, resources, tags, id)

    async def remove(self, caller: Principal, where: tuple[str, str], tags: Tags = None) -> Object:
        """Take a resource out; `where` is (context, id)."""
        async with self._desk.turn(caller.workspace):
            context = self._opened(caller.workspace, where[0], tags)
            resources = resources_of(context)
            _one(context, resources, where[1])
            del resources[where[1]]
            return await self._save(caller, context, resources, tags)

    async def order(self, caller: Principal, name: str, ids: Sequence[str], tags: Tags = None) -> Object:
        """Put the resources in another order, which has to name each of them once."""
        async with self._desk.turn(caller.workspace):
            context = self._opened(caller.workspace, name, tags)
            resources = resources_of(context)
            if sorted(ids) != sorted(resources):
                message = f"must name each resource once: {', '.join(sorted(resources)) or 'there are none'}"
                raise InvalidObject("The order does not fit the resources.", [FieldError("/order", message)])
            return await self._save(caller, context, {id: resources[id] for id in ids}, tags)

    def _opened(self, workspace: str, name: str, tags: Tags) -> Object:
        context = self._objects.get(workspace, KIND, name)
        context.require(tags)
        context.own()
        return context

    async def _save(
        self, caller: Principal, context: Object, resources: Resources, tags: Tags, id: str | None = None
    ) -> Object:
        data = {**context.data, "resources": resources}

        def point(fault: Fault) -> FieldError:
            if fault.keys[:2] == ("resources", id):
                inner = fault.keys[2:] or (("id",) if "alias" in fault.message else ())
                return FieldError(pointer(inner), fault.message)
            return FieldError("", f"{fault.path}: {fault.message}")

        await self._desk.tried(caller.workspace, {(KIND, context.alias): data}, point)
        body, record = stored_form(KIND, context.alias, data), context.own()
        if orjson.dumps(body) != record.body:
            await self._desk.commit(caller, "update", [Change(KIND, context.alias, body, record)], tags)
        return self._objects.get(caller.workspace, KIND, context.alias)


def resources_of(context: Object) -> Resources:
    """The resources of a context by id, in their order, as a copy."""
    return dict(context.data.get("resources") or {})


def _one(context: Object, resources: Mapping[str, Any], id: str) -> Any:
    if id not in resources:
        raise NotFound(f"{context.alias!r} has no resource {id!r}.")
    return resources[id]
