"""Puts the management API together from the parts of a gateway."""

from dataclasses import dataclass

from gateway.control.content import Content
from gateway.control.documents import Documents
from gateway.control.imports import Importer
from gateway.control.keys import Keys
from gateway.control.links import Links
from gateway.control.services import Services
from gateway.edge.manage.agents import agents
from gateway.edge.manage.app import Manage
from gateway.edge.manage.audit import Audit
from gateway.edge.manage.bundle import Bundles
from gateway.edge.manage.content import content
from gateway.edge.manage.contexts import contexts
from gateway.edge.manage.documents import DocumentNoun
from gateway.edge.manage.drafts import DraftList
from gateway.edge.manage.keys import KeyNoun
from gateway.edge.manage.links import LinkNoun, LinkTold
from gateway.edge.manage.profiles import profiles
from gateway.edge.manage.prompts import prompts
from gateway.edge.manage.resolve import Resolve
from gateway.edge.manage.resource_types import ResourceTypes
from gateway.edge.manage.resources import Resources
from gateway.edge.manage.routes import RouteGroup
from gateway.edge.manage.search import Search
from gateway.edge.manage.usage import Usage
from gateway.extraction.extract import DocumentCache
from gateway.links.cache import LinkCache
from gateway.pipeline import Pipeline
from gateway.policies.repository import PolicyRepository
from gateway.resources.registry import Registry
from gateway.settings import Settings
from gateway.stores.protocols import EphemeralStore, RecordStore


@dataclass(frozen=True, slots=True)
class Parts:
    """What the nouns of the API work on."""

    settings: Settings
    types: Registry
    policies: PolicyRepository
    records: RecordStore
    store: EphemeralStore
    links: LinkCache
    pipeline: Pipeline


def management(parts: Parts) -> Manage:
    """The app below `/api/v1`."""
    services = Services.over(parts.policies, parts.records, parts.store)
    limits = parts.settings.documents
    files = DocumentCache(limits)
    nouns: tuple[RouteGroup, ...] = (
        ResourceTypes(parts.types),
        *contexts(services),
        Resources(services.objects, services.contexts, LinkTold(parts.links)),
        LinkNoun(Links(parts.policies, parts.links, services.contexts)),
        *profiles(services),
        *agents(services),
        *prompts(services),
        DraftList(services.drafts),
        DocumentNoun(Documents(parts.policies, services.desk, parts.store, limits), limits.max_bytes),
        *content(services, Content(parts.policies, services.desk)),
        Resolve(parts.pipeline, parts.policies, services.objects),
        Usage(parts.policies),
        Search(parts.policies),
        Bundles(parts.policies, Importer(parts.policies, services.desk, files), files),
        Audit(parts.records),
        KeyNoun(Keys(parts.policies, parts.settings.auth.keys)),
    )
    return Manage(nouns, parts.settings.limits)
