"""Compiles contexts: their resources are validated by type, given their material and rendered once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from gateway.domain.context import Context
from gateway.domain.material import BlobMaterial, FileMaterial, LinkMaterial
from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.errors import Fault
from gateway.policies.files import PolicyEntry, entries
from gateway.policies.shapes import ContextShape, ResourceShape, alias_fault
from gateway.resources.base import ResourceType
from gateway.validation import nearest, validate


class TypeRegistry(Protocol):
    """The resource types that policies may use."""

    def get(self, alias: str) -> ResourceType | None:
        """The type of that alias, or None."""
        ...

    def aliases(self) -> tuple[str, ...]:
        """All known aliases."""
        ...


class Materials(Protocol):
    """Where the text of documents and links comes from."""

    def file(self, path: Path) -> str:
        """The text of a document; raises ValueError with a sentence for the policy's author."""
        ...

    def link(self, url: str) -> str | None:
        """The last good copy of a page; None: never fetched."""
        ...


@dataclass(frozen=True, slots=True)
class PolicySource:
    """What entries are compiled with."""

    directory: Path
    types: TypeRegistry
    materials: Materials


@dataclass(frozen=True, slots=True)
class ContextCompiler:
    """Turns one entry of `contexts` into a context; faults are gathered, not raised."""

    source: PolicySource
    documents: Mapping[str, str]  # texts of uploaded documents by hash
    faults: list[Fault] = field(default_factory=list)
    links: dict[str, LinkMaterial] = field(default_factory=dict)  # by the id of the resource
    borrowed: set[str] = field(default_factory=set)  # ids of resources whose text lies outside the entry

    def context(self, entry: PolicyEntry) -> Context | None:
        self._check_alias(entry)
        shape, faults = validate(ContextShape, entry.data, entry.place.document, entry.place.keys)
        self.faults.extend(faults)
        given = entry.data.get("resources") if isinstance(entry.data, dict) else None
        found, faults = entries(given, entry.place / "resources")
        self.faults.extend(faults)
        resources = [self._resource(entry.alias, inner) for inner in found]
        if shape is None:
            return None
        return Context(
            alias=entry.alias,
            name=shape.name or title_from_alias(entry.alias),
            default=shape.default,
            mandatory=shape.mandatory,
            resources=tuple(resource for resource in resources if resource is not None),
            valid_from=_seconds(shape.valid_from),
            valid_until=_seconds(shape.valid_until),
        )

    def _resource(self, context: str, entry: PolicyEntry) -> Resource | None:
        self._check_alias(entry)
        shape, faults = validate(ResourceShape, entry.data, entry.place.document, entry.place.keys)
        self.faults.extend(faults)
        kind = self._type(entry)
        if kind is None:
            return None
        raw = entry.data.get("data") if isinstance(entry.data, dict) else None
        place = entry.place / "data"
        data, faults = validate(kind.data, {} if raw is None else raw, place.document, place.keys)
        self.faults.extend(faults)
        if shape is None or data is None:
            return None
        identity = f"{context}/{entry.alias}"
        try:
            text = self._text(identity, kind, data, entry)
        except ValueError as error:
            self.faults.append(place.fault(str(error)))
            return None
        return _resource(identity, shape, kind, data, text)

    def _type(self, entry: PolicyEntry) -> ResourceType | None:
        alias = entry.data.get("type") if isinstance(entry.data, dict) else None
        if not isinstance(alias, str):
            return None  # the shape has reported it
        kind = self.source.types.get(alias)
        if kind is None:
            hint = nearest(alias, self.source.types.aliases())
            self.faults.append((entry.place / "type").fault(f"there is no resource type {alias!r}{hint}"))
        return kind

    def _text(self, identity: str, kind: ResourceType, data: Any, entry: PolicyEntry) -> str | None:
        material = kind.material(data)
        if material is not None:
            self.borrowed.add(identity)
        if isinstance(material, FileMaterial):
            return kind.render(data, self._file(material.path, entry))
        if isinstance(material, BlobMaterial):
            return kind.render(data, self._upload(material.sha256))
        if isinstance(material, LinkMaterial):
            self.links[identity] = material
            text = self.source.materials.link(material.url)
            return None if text is None else kind.render(data, text)
        return kind.render(data, None)

    def _file(self, written: str, entry: PolicyEntry) -> str:
        # What is stored has no lines. Whoever may use the API must not read the server's files by it.
        if not entry.place.document.lines:
            raise ValueError("only policy files can name a path; upload the document and give its sha256")
        folder = Path(entry.place.document.name).parent
        return self.source.materials.file(document_path(self.source.directory, folder, written))

    def _upload(self, sha256: str) -> str:
        if sha256 not in self.documents:
            raise ValueError(f"there is no uploaded document {sha256!r}")
        return self.documents[sha256]

    def _check_alias(self, entry: PolicyEntry) -> None:
        wrong = alias_fault(entry.alias)
        if wrong:
            self.faults.append(entry.place.fault(wrong))


def _resource(identity: str, shape: ResourceShape, kind: ResourceType, data: Any, text: str | None) -> Resource:
    context, _, alias = identity.partition("/")
    return Resource(
        id=identity,
        context=context,
        type=shape.type,
        name=shape.name or title_from_alias(alias),
        mode=shape.mode,
        kind=shape.kind or (ResourceKind.RULE if shape.mode is Mode.ALWAYS else ResourceKind.REFERENCE),
        description=shape.description,
        languages=tuple(shape.languages),
        clash_key=shape.key or kind.clash_key,
        priority=shape.priority,
        required=shape.required,
        mandatory=shape.mandatory,
        readers=tuple(shape.readers),
        examples=tuple(shape.examples),
        truncate=shape.truncate,
        data=data,
        text=text,
        valid_from=_seconds(shape.valid_from),
        valid_until=_seconds(shape.valid_until),
    )


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def document_path(directory: Path, folder: Path, written: str) -> Path:
    """The file that a policy in `folder` means; raises ValueError when it would leave the policy directory."""
    if "\0" in written or Path(written).is_absolute():
        raise ValueError(f"{written!r} must be relative to the policy file")
    path = (folder / written).resolve()
    if not path.is_relative_to(directory.resolve()):
        raise ValueError(f"{written!r} lies outside the policy directory")
    return path


def title_from_alias(alias: str) -> str:
    """A name for what was given none: `style-guide` → `Style guide`."""
    words = " ".join(alias.replace("_", " ").replace("-", " ").split())
    return words[:1].upper() + words[1:] if words else alias
