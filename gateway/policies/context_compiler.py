"""Compiles contexts: each resource is validated by its type, given its material and rendered once."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from pydantic import BaseModel

from gateway.domain.context import Context
from gateway.domain.material import BlobMaterial, FileMaterial, LinkMaterial, ToolListMaterial
from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.domain.tool import CallableTool, ToolServerAddress
from gateway.errors import ALIAS_FAULT, Fault, shorten
from gateway.policies.files import PolicyEntry, split_entries
from gateway.policies.materials import NO_RETRIEVER_CHECKS, NO_TOOL_LISTS, Materials, RetrieverChecks, ToolLists
from gateway.policies.retriever_compiler import compile_retriever, find_retriever_fault
from gateway.policies.shapes import ContextShape, ResourceShape, find_alias_fault, find_reader_fault
from gateway.policies.tool_compiler import compile_http_tool, expand_server, find_tool_fault
from gateway.resources.base import ResourceType
from gateway.resources.http_tool import HttpToolData
from gateway.resources.mcp_server import McpServerData
from gateway.resources.registry import ResourceRegistry
from gateway.resources.retriever import RetrieverData
from gateway.tools.listing import decode_listing
from gateway.validation import format_suggestion

# What the code of a resource type may raise besides ValueError; it must not end a reload of everything else.
UNEXPECTED = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError)


class PolicySource(msgspec.Struct, frozen=True):
    """What policies are compiled from: the directory, the resource types and the texts that resources refer to."""

    directory: Path
    types: ResourceRegistry
    materials: Materials
    servers: ToolLists = NO_TOOL_LISTS
    workspace: str = ""  # whose policies; "": those of the files
    collectors: Mapping[str, type[BaseModel]] | None = None  # options by name; None: they are not checked
    retrievers: RetrieverChecks = NO_RETRIEVER_CHECKS


TextMaterial = BlobMaterial | LinkMaterial | ToolListMaterial


class ForeignText(NamedTuple):
    """A text that an entry was compiled with: of an upload or of a page."""

    material: TextMaterial
    text: str | None  # None: there is none yet


class TextFinder(msgspec.Struct, frozen=True):
    """Finds the texts of uploads and pages."""

    source: PolicySource
    documents: Mapping[str, str]  # SHA-256 → text

    def find(self, material: TextMaterial) -> str | None:
        if isinstance(material, BlobMaterial):
            return self.documents.get(material.sha256)
        if isinstance(material, ToolListMaterial):
            return self.source.servers.find_listing(material.address)
        return self.source.materials.link(material.url)


class ContextCompiler(msgspec.Struct, frozen=True):
    """Compiles one entry of `contexts`; faults are collected, not raised."""

    source: PolicySource
    documents: Mapping[str, str]  # SHA-256 → text of an uploaded document
    faults: list[Fault] = msgspec.field(default_factory=list)
    links: dict[str, LinkMaterial] = msgspec.field(default_factory=dict)  # by resource id
    servers: dict[str, ToolServerAddress] = msgspec.field(default_factory=dict)  # by resource id
    texts: list[ForeignText] = msgspec.field(default_factory=list)  # of documents and links
    file_users: set[str] = msgspec.field(default_factory=set)  # ids of resources whose text lies in a file

    @property
    def reads_files(self) -> bool:
        return bool(self.file_users)

    def compile(self, entry: PolicyEntry) -> Context | None:
        self._check_alias(entry)
        shape, faults = entry.location.validate(ContextShape, entry.data)
        self.faults.extend(faults)
        data = entry.data.get("resources") if isinstance(entry.data, dict) else None
        inner_entries, faults = split_entries(data, entry.location / "resources")
        self.faults.extend(faults)
        resources = [self._compile_resource(entry.alias, inner) for inner in inner_entries]
        if entry.record is None:
            for inner in inner_entries:
                self.faults.extend(list_reader_faults(inner))
        self._check_brought(entry, [one for one in resources if one is not None])
        if shape is None:
            return None
        return Context(
            alias=entry.alias,
            name=shape.name or title_from_alias(entry.alias),
            default=shape.default,
            mandatory=shape.mandatory,
            resources=tuple(
                resource for resource in resources if resource is not None for resource in self._expand(resource)
            ),
            valid_from=_to_timestamp(shape.valid_from),
            valid_until=_to_timestamp(shape.valid_until),
        )

    def _compile_resource(self, context: str, entry: PolicyEntry) -> Resource | None:
        self._check_alias(entry)
        shape, faults = entry.location.validate(ResourceShape, entry.data)
        self.faults.extend(faults)
        kind = self._find_type(entry)
        if kind is None:
            return None
        raw = entry.data.get("data") if isinstance(entry.data, dict) else None
        location = entry.location / "data"
        data, faults = location.validate(kind.data, {} if raw is None else raw)
        self.faults.extend(faults)
        if shape is None or data is None:
            return None
        if (fault := find_tool_fault(shape, kind)) is not None:
            self.faults.append(entry.location.fault(fault))
            return None
        identity = f"{context}/{entry.alias}"
        try:
            text = self._render(identity, kind, data, entry)
        except ValueError as error:
            self.faults.append(location.fault(str(error)))
            return None
        except UNEXPECTED as error:
            self.faults.append(location.fault(f"cannot be rendered: {type(error).__name__}: {shorten(str(error))}"))
            return None
        resource = _make_resource(identity, shape, kind, data, text)
        if isinstance(data, RetrieverData):
            return self._compile_retriever(resource, shape, data, entry)
        return compile_http_tool(resource, data) if isinstance(data, HttpToolData) else resource

    def _compile_retriever(
        self, resource: Resource, shape: ResourceShape, data: RetrieverData, entry: PolicyEntry
    ) -> Resource | None:
        if (fault := find_retriever_fault(shape)) is not None:
            self.faults.append(entry.location.fault(fault))
            return None
        if (fault := self.source.retrievers.find_fault(self.source.workspace, data.target)) is not None:
            self.faults.append((entry.location / "data").fault(fault))
            return None
        return compile_retriever(resource, data, shape.kind)

    def _expand(self, resource: Resource) -> Iterator[Resource]:
        """The resource, followed by the tools of its server if it stands for one."""
        yield resource
        if isinstance(resource.data, McpServerData) and resource.text is not None:
            listing = self.source.servers.find_listing(resource.data.address)
            yield from expand_server(resource, resource.data, decode_listing(listing) if listing else ())

    def _check_brought(self, entry: PolicyEntry, resources: list[Resource]) -> None:
        """Endpoints of the same context must exist; what a server has is only known when it answers."""
        known = {one.id for one in resources}
        for one in resources:
            brings = one.data.brings if isinstance(one.data, CallableTool) else ()
            for position, name in enumerate(brings):
                if name.startswith(f"{entry.alias}/") and name not in known and "." not in name:
                    place = entry.location / "resources" / one.id.partition("/")[2] / "data" / "brings" / position
                    self.faults.append(place.fault(f"there is no tool {name!r}{format_suggestion(name, known)}"))

    def _find_type(self, entry: PolicyEntry) -> ResourceType | None:
        alias = entry.data.get("type") if isinstance(entry.data, dict) else None
        if not isinstance(alias, str):
            return None  # validation has reported it
        kind = self.source.types.get(alias)
        if kind is None:
            hint = format_suggestion(alias, self.source.types.list_aliases())
            self.faults.append((entry.location / "type").fault(f"there is no resource type {alias!r}{hint}"))
        return kind

    def _render(self, identity: str, kind: ResourceType, data: Any, entry: PolicyEntry) -> str | None:
        material = kind.material(data)
        if material is None:
            return kind.render(data, None)
        if isinstance(material, FileMaterial):
            self.file_users.add(identity)
            return kind.render(data, self._read_file(material.path, entry))
        text = TextFinder(self.source, self.documents).find(material)
        self.texts.append(ForeignText(material, text))
        if isinstance(material, ToolListMaterial):
            self._check_server(material.address)
            self.servers[identity] = material.address
        elif isinstance(material, LinkMaterial):
            self.links[identity] = material
        elif text is None:
            raise ValueError(f"there is no uploaded document {material.sha256!r}")
        return None if text is None else kind.render(data, text)

    def _check_server(self, address: ToolServerAddress) -> None:
        known = self.source.servers.list_names(self.source.workspace)
        if address.name and address.name not in known:
            hint = format_suggestion(address.name, known)
            raise ValueError(f"there is no server {address.name!r} under tool_servers in the configuration{hint}")

    def _read_file(self, written: str, entry: PolicyEntry) -> str:
        # Stored entries have no lines. Callers of the API must not be able to read the server's files.
        if not entry.location.document.lines:
            raise ValueError("only policy files can name a path; upload the document and give its sha256")
        folder = Path(entry.location.document.name).parent
        return self.source.materials.file(resolve_document_path(self.source.directory, folder, written))

    def _check_alias(self, entry: PolicyEntry) -> None:
        fault = find_alias_fault(entry.alias)
        if fault:
            self.faults.append(entry.location.fault(fault, ALIAS_FAULT))


def list_reader_faults(entry: PolicyEntry) -> Iterator[Fault]:
    """What is wrong with the names in a reader list.

    Not asked of what is stored already: a bare name from an earlier release names nobody, and the rest is served.
    """
    readers = entry.data.get("readers") if isinstance(entry.data, dict) else None
    location = entry.location / "readers"
    for position, name in enumerate(readers if isinstance(readers, list) else [readers]):
        fault = find_reader_fault(name) if isinstance(name, str) and name else None
        if fault is not None:
            yield (location / position if isinstance(readers, list) else location).fault(fault)


def _make_resource(identity: str, shape: ResourceShape, kind: ResourceType, data: Any, text: str | None) -> Resource:
    context, _, alias = identity.partition("/")
    default = ResourceKind.TOOL if kind.is_tool else None
    return Resource(
        id=identity,
        context=context,
        type=shape.type,
        name=shape.name or title_from_alias(alias),
        mode=shape.mode,
        kind=shape.kind or default or (ResourceKind.RULE if shape.mode is Mode.ALWAYS else ResourceKind.REFERENCE),
        description=shape.description,
        languages=tuple(shape.languages),
        conflict_key=shape.key or kind.conflict_key,
        priority=shape.priority,
        required=shape.required,
        mandatory=shape.mandatory,
        readers=tuple(shape.readers),
        examples=tuple(shape.examples),
        truncate=shape.truncate,
        data=data,
        text=text,
        valid_from=_to_timestamp(shape.valid_from),
        valid_until=_to_timestamp(shape.valid_until),
    )


def _to_timestamp(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def resolve_document_path(directory: Path, folder: Path, written: str) -> Path:
    """The file that a policy in `folder` refers to; raises ValueError if it is outside the policy directory."""
    if "\0" in written or Path(written).is_absolute():
        raise ValueError(f"{written!r} must be relative to the policy file")
    try:
        path = (folder / written).resolve()
    except (OSError, RuntimeError) as error:  # links that lead to each other
        raise ValueError(f"{written!r} cannot be followed") from error
    if not path.is_relative_to(directory.resolve()):
        raise ValueError(f"{written!r} is outside the policy directory")
    return path


def title_from_alias(alias: str) -> str:
    """A title for an object without a name: `style-guide` → `Style guide`."""
    words = " ".join(alias.replace("_", " ").replace("-", " ").split())
    return words[:1].upper() + words[1:] if words else alias
