"""`/export` and `/import`: all objects of a workspace as one bundle in the form of a policy file."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson
from pydantic import BaseModel, Field

from gateway.control.bundle import Exporter, Files, bundle_of
from gateway.control.content import Served
from gateway.control.imports import Importer, ImportOptions, Step
from gateway.control.yaml_writer import yaml_text
from gateway.domain.principal import Role
from gateway.edge.manage.bodies import decode_json
from gateway.edge.manage.calls import ApiCall, ApiReply, ok
from gateway.edge.manage.routes import ApiRoute, Media, Query
from gateway.errors import Conflict, Faults, FieldError, InsufficientStorage, InvalidObject
from gateway.strict_yaml import YamlDocument, parse

JSON, YAML = "application/json", "application/yaml"
NAME = "bundle"


class ExportQuery(Query):
    """What is wanted, and how."""

    format: Literal["yaml", "json"] = Field("yaml", description="How it is written.")
    source: Literal["all", "stored"] = Field("all", description="Whether what files say is left out.")


class ImportQuery(Query):
    """How a bundle is taken over."""

    dry_run: bool = Field(False, description="Only tell what would change.")
    mode: Literal["merge", "replace"] = Field(
        "merge", description="Whether stored objects that the bundle lacks are deleted."
    )


class Difference(BaseModel):
    """A value that differs; null stands for one that is absent, too."""

    pointer: str
    from_: Any = Field(None, alias="from", serialization_alias="from")
    to: Any = None


class ImportStep(BaseModel):
    """What happens to one object."""

    kind: str
    alias: str
    action: Literal["create", "update", "unchanged", "delete"]
    changes: list[Difference]


class Imported(BaseModel):
    """What an import has done, or would do."""

    dry_run: bool
    items: list[ImportStep]
    total: int
    snapshot: str | None = Field(description="The first 12 hex digits of the policies' hash; null for a dry run.")


@dataclass(frozen=True, slots=True)
class Bundles:
    """Export and import of the caller's own workspace."""

    policies: Served
    importer: Importer
    files: Files

    def routes(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/export",
            handler=self.export,
            role=Role.EDITOR,
            tag="bundles",
            summary="Everything as one bundle",
            query=ExportQuery,
            responses={200: Media((YAML, JSON))},
            errors=(Conflict,),
        )
        yield ApiRoute(
            method="POST",
            path="/import",
            handler=self.take_over,
            role=Role.EDITOR,
            tag="bundles",
            summary="Take a bundle over, all of it or nothing",
            query=ImportQuery,
            body=Media((JSON, YAML)),
            responses={200: Imported},
            errors=(Conflict, InvalidObject, InsufficientStorage),
        )

    async def export(self, call: ApiCall[ExportQuery, None]) -> ApiReply:
        entries = self.policies.entries(call.workspace)
        stored = call.query.source == "stored"
        objects = await asyncio.to_thread(Exporter(self.files).objects, entries, stored=stored)
        return await asyncio.to_thread(_written, bundle_of(objects), call.query.format)

    async def take_over(self, call: ApiCall[ImportQuery, bytes]) -> ApiReply:
        document = await asyncio.to_thread(_read, call.body, call.headers)
        wish = ImportOptions(replace=call.query.mode == "replace", dry_run=call.query.dry_run)
        steps = await self.importer.run(call.principal, document, wish)
        return ok(
            Imported(
                dry_run=wish.dry_run,
                items=[_shown(step) for step in steps],
                total=len(steps),
                snapshot=None if wish.dry_run else self.policies.of(call.workspace).hash[:12],
            )
        )


def _written(bundle: dict[str, Any], form: str) -> ApiReply:
    if form == "json":
        return ApiReply(200, orjson.dumps(bundle, option=orjson.OPT_INDENT_2), media=JSON)
    try:
        return ApiReply(200, yaml_text(bundle).encode(), media=YAML)
    except ValueError as error:
        raise Conflict(f"This cannot be exported as YAML: {error}.") from error


def _read(raw: bytes, headers: Mapping[bytes, bytes]) -> YamlDocument:
    """The bundle, by the type that its sender gives it."""
    if headers.get(b"content-type", b"").split(b";")[0].strip().lower() == JSON.encode():
        return YamlDocument(NAME, decode_json(raw), {})
    try:
        return parse(raw, NAME, max_bytes=len(raw))
    except Faults as faults:
        told = [FieldError("", f"{one.message} (line {one.line})") for one in faults.faults]
        raise InvalidObject("The bundle is not YAML that is accepted here.", told) from faults


def _shown(step: Step) -> ImportStep:
    return ImportStep(
        kind=step.kind,
        alias=step.alias,
        action=step.action,
        changes=[Difference.model_validate(one) for one in step.changes],
    )
