"""`/export` and `/import`: all objects of a workspace as one bundle in the form of a policy file."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
import orjson
from pydantic import BaseModel, Field

from gateway.control.bundle_export import BundleExporter, build_bundle
from gateway.control.bundle_import import BundleImporter, ImportOptions
from gateway.control.bundle_knowledge import export_items
from gateway.control.bundle_plan import PlannedChange
from gateway.control.yaml_writer import format_yaml
from gateway.domain.principal import Role
from gateway.edge.manage.calls import JSON, ApiCall, ApiReply
from gateway.edge.manage.paging import QueryParameters
from gateway.edge.manage.routes import ApiRoute, MediaContent, decode_json, require_media_type
from gateway.edge.manage.versions import ChangeView
from gateway.errors import Conflict, Faults, FieldError, InsufficientStorage, InvalidObject
from gateway.extraction.extract import DocumentCache
from gateway.fair_queue import FairThreads
from gateway.knowledge.repository import KnowledgeRepository
from gateway.policies.repository import PolicyRepository
from gateway.policies.whole_entries import read_whole_entries
from gateway.strict_yaml import YamlDocument, parse_yaml

YAML = "application/yaml"
TYPES = (JSON, YAML)
NAME = "bundle"


class ExportQuery(QueryParameters):
    """What to export, and how."""

    format: Literal["yaml", "json"] = Field("yaml", description="The format of the bundle.")
    source: Literal["all", "stored"] = Field("all", description="`stored` leaves out what comes from policy files.")


class ImportQuery(QueryParameters):
    """How to import a bundle."""

    dry_run: bool = Field(False, description="Only report what would change.")
    mode: Literal["merge", "replace"] = Field(
        "merge", description="`replace` deletes the stored objects that are not in the bundle."
    )


class ImportStep(BaseModel):
    """What happens to one object."""

    kind: str
    alias: str
    action: Literal["create", "update", "adopt", "unchanged", "delete"]
    changes: list[ChangeView]


class ImportResult(BaseModel):
    """What an import has done, or would do."""

    dry_run: bool
    items: list[ImportStep]
    total: int
    snapshot: str | None = Field(description="The first 12 hex digits of the policies' hash; null for a dry run.")


class BundleRoutes(msgspec.Struct, frozen=True):
    """Export and import of the caller's own workspace."""

    policies: PolicyRepository
    importer: BundleImporter
    knowledge: KnowledgeRepository
    files: DocumentCache
    threads: FairThreads

    def list_routes(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/export",
            handler=self.export_bundle,
            role=Role.EDITOR,
            tag="bundles",
            summary="Export everything as one bundle",
            query=ExportQuery,
            responses={200: MediaContent((YAML, JSON))},
            errors=(Conflict,),
        )
        yield ApiRoute(
            method="POST",
            path="/import",
            handler=self.import_bundle,
            role=Role.EDITOR,
            tag="bundles",
            summary="Import a bundle, all of it or nothing",
            query=ImportQuery,
            body=MediaContent(TYPES),
            responses={200: ImportResult},
            errors=(Conflict, InvalidObject, InsufficientStorage),
        )

    async def export_bundle(self, call: ApiCall[ExportQuery, None]) -> ApiReply:
        entries = await read_whole_entries(self.policies, call.workspace)
        stored = call.query.source == "stored"
        known = self.knowledge.get(call.workspace)

        def render() -> ApiReply:
            objects = BundleExporter(self.files).objects(entries, stored=stored)
            return _render_bundle(build_bundle(objects, export_items(known, stored=stored)), call.query.format)

        return await self.threads.run(call.workspace, render)

    async def import_bundle(self, call: ApiCall[ImportQuery, bytes]) -> ApiReply:
        document = await self.threads.run(
            call.workspace, _parse_bundle, call.body, require_media_type(call.content_type, TYPES)
        )
        options = ImportOptions(replace=call.query.mode == "replace", dry_run=call.query.dry_run)
        steps = await self.importer.run(call.principal, document, options)
        return ApiReply(
            ImportResult(
                dry_run=options.dry_run,
                items=[_build_step(step) for step in steps],
                total=len(steps),
                snapshot=None if options.dry_run else self.policies.get_snapshot(call.workspace).hash[:12],
            )
        )


def _render_bundle(bundle: dict[str, Any], format: str) -> ApiReply:
    if format == "json":
        return ApiReply(orjson.dumps(bundle, option=orjson.OPT_INDENT_2), media_type=JSON)
    try:
        return ApiReply(format_yaml(bundle).encode(), media_type=YAML)
    except ValueError as error:
        raise Conflict(f"This cannot be exported as YAML: {error}.") from error


def _parse_bundle(raw: bytes, media_type: str) -> YamlDocument:
    if media_type == JSON:
        return YamlDocument(NAME, decode_json(raw), {})
    try:
        return parse_yaml(raw, NAME, max_bytes=len(raw))
    except Faults as faults:
        wrong = [FieldError("", f"{one.message} (line {one.line})") for one in faults.faults]
        raise InvalidObject("The bundle is not valid YAML.", wrong) from faults


def _build_step(step: PlannedChange) -> ImportStep:
    return ImportStep(
        kind=step.kind,
        alias=step.alias,
        action=step.action,
        changes=[ChangeView.model_validate(one) for one in step.changes],
    )
