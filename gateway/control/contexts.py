"""What only contexts have: the global default, and resources that are changed one by one."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from gateway.control.authorship import Tags
from gateway.control.object_bodies import make_stored_body, read_resource_id, read_type, strip_shown_fields
from gateway.control.objects import Objects, PolicyObject, SavedObject
from gateway.control.writer import Change, PolicyWriter
from gateway.domain.principal import Principal
from gateway.errors import ALIAS_FAULT, Conflict, Fault, FieldError, InvalidObject, NotFound, PreconditionFailed
from gateway.validation import format_pointer

KIND = "contexts"

Resources = dict[str, Any]


class Contexts:
    """The resources of contexts, where each change is a new version of the context, and the global default."""

    def __init__(self, objects: Objects, writer: PolicyWriter) -> None:
        self._objects = objects
        self._writer = writer

    def get_default(self, workspace: str) -> PolicyObject:
        """The global default; raises NotFound."""
        found = self._objects.find_default(workspace)
        if found is None:
            raise NotFound("No context is the global default.")
        return found

    async def set_default(self, caller: Principal, name: str, tags: Tags = None) -> PolicyObject:
        """Make a context the global default in place of the former one, in one commit."""
        async with self._writer.lock(caller.workspace):
            current = self._objects.get(caller.workspace, KIND, name)
            record, former = current.require_writable(tags), self._objects.find_default(caller.workspace)
            if former is None or former.alias != current.alias:
                changes = [Change(KIND, current.alias, {**current.data, "default": True}, record)]
                if former is not None and former.record is None:
                    raise Conflict(
                        f"{former.alias!r} is the global default, set in the file {former.file}; change it there."
                    )
                if former is not None:
                    without = {key: value for key, value in former.data.items() if key != "default"}
                    changes.append(Change(KIND, former.alias, without, former.get_record()))
                await self._writer.check(caller.workspace, {(KIND, one.alias): one.body for one in changes})
                await self._writer.commit(caller, "update", changes, tags)
        return self._objects.get(caller.workspace, KIND, current.alias)

    def resource(self, workspace: str, name: str, id: str) -> tuple[PolicyObject, Any]:
        """A context and the data of one of its resources; raises NotFound."""
        context = self._objects.get(workspace, KIND, name)
        return context, _get_resource(context, copy_resources(context), id)

    async def add(self, caller: Principal, name: str, sent: Any, tags: Tags = None) -> tuple[PolicyObject, str]:
        """Append a resource; returns the new version of its context, and its id."""
        id = read_resource_id(sent)
        if isinstance(id, FieldError):
            raise InvalidObject("The resource needs an id.", [id])
        async with self._writer.lock(caller.workspace):
            context = self._get_writable(caller.workspace, name, tags)
            resources = copy_resources(context)
            if id in resources:
                raise Conflict(f"{context.alias!r} already has a resource {id!r}.")
            resources[id] = strip_shown_fields(sent)
            return await self._save(caller, context, resources, tags, id), id

    async def save(
        self, caller: Principal, where: tuple[str, str], sent: Any, tags: Tags = None, *, only_new: bool = False
    ) -> SavedObject:
        """Replace a resource in its place, unless it has to be new, or append it; `where` is (context, id)."""
        async with self._writer.lock(caller.workspace):
            context = self._get_writable(caller.workspace, where[0], tags)
            resources, id = copy_resources(context), where[1]
            created = id not in resources
            if only_new and not created:
                raise PreconditionFailed(f"contexts/{context.alias}/resources/{id} exists already.")
            require_same_type(resources.get(id), sent)
            sent_id = read_resource_id(sent) if isinstance(sent, dict) and {"id", "alias"} & sent.keys() else id
            if sent_id != id:
                error = FieldError("/id", f"cannot be changed; this is {id!r}")
                raise InvalidObject("The id cannot be changed.", [error])
            resources[id] = strip_shown_fields(sent)
            return SavedObject(await self._save(caller, context, resources, tags, id), created)

    async def remove(self, caller: Principal, where: tuple[str, str], tags: Tags = None) -> PolicyObject:
        """Remove a resource; `where` is (context, id)."""
        async with self._writer.lock(caller.workspace):
            context = self._get_writable(caller.workspace, where[0], tags)
            resources = copy_resources(context)
            _get_resource(context, resources, where[1])
            del resources[where[1]]
            return await self._save(caller, context, resources, tags)

    async def order(self, caller: Principal, name: str, ids: Sequence[str], tags: Tags = None) -> PolicyObject:
        """Reorder the resources; `ids` must name each of them once."""
        async with self._writer.lock(caller.workspace):
            context = self._get_writable(caller.workspace, name, tags)
            resources = copy_resources(context)
            if sorted(ids) != sorted(resources):
                message = f"must name each resource once: {', '.join(sorted(resources)) or 'there are none'}"
                raise InvalidObject("The order does not match the resources.", [FieldError("/order", message)])
            return await self._save(caller, context, {id: resources[id] for id in ids}, tags)

    def _get_writable(self, workspace: str, name: str, tags: Tags) -> PolicyObject:
        context = self._objects.get(workspace, KIND, name)
        context.require_writable(tags)
        return context

    async def _save(
        self, caller: Principal, context: PolicyObject, resources: Resources, tags: Tags, id: str | None = None
    ) -> PolicyObject:
        data = {**context.data, "resources": resources}

        def point(fault: Fault) -> FieldError:
            if fault.keys[:2] == ("resources", id):
                inner = fault.keys[2:] or (("id",) if fault.code == ALIAS_FAULT else ())
                return FieldError(format_pointer(inner), fault.message)
            return FieldError("", f"{fault.path}: {fault.message}")

        await self._writer.check(caller.workspace, {(KIND, context.alias): data}, point)
        body, record = make_stored_body(KIND, context.alias, data), context.get_record()
        if orjson.dumps(body) != record.body:
            await self._writer.commit(caller, "update", [Change(KIND, context.alias, body, record)], tags)
        return self._objects.get(caller.workspace, KIND, context.alias)


def require_same_type(current: Any, sent: Any) -> None:
    """Raise InvalidObject if the body has another type: a resource keeps the one it was created with."""
    known, said = read_type(current), read_type(sent)
    if known is not None and said is not None and said != known:
        message = f"cannot be changed; this is {known!r}. Create another resource instead"
        raise InvalidObject("The type cannot be changed.", [FieldError("/type", message)])


def copy_resources(context: PolicyObject) -> Resources:
    """The resources of a context by id, in their order, as a copy."""
    return dict(context.data.get("resources") or {})


def _get_resource(context: PolicyObject, resources: Mapping[str, Any], id: str) -> Any:
    if id not in resources:
        raise NotFound(f"{context.alias!r} has no resource {id!r}.")
    return resources[id]
