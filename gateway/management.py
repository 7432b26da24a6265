"""Puts the management API together from the parts of a gateway."""

from dataclasses import dataclass

from gateway.control.keys import Keys
from gateway.edge.manage.app import Manage
from gateway.edge.manage.keys import KeyNoun
from gateway.edge.manage.resource_types import ResourceTypes
from gateway.edge.manage.routes import Noun
from gateway.pipeline import Pipeline
from gateway.resources.registry import Registry
from gateway.settings import Settings
from gateway.stores.base import EphemeralStore, RecordStore
from gateway.stores.links import LinkCache
from gateway.stores.workspaces import Policies


@dataclass(frozen=True, slots=True)
class Parts:
    """What the nouns of the API work on."""

    settings: Settings
    types: Registry
    policies: Policies
    records: RecordStore
    store: EphemeralStore
    links: LinkCache
    pipeline: Pipeline


def management(parts: Parts) -> Manage:
    """The app below `/api/v1`."""
    nouns: tuple[Noun, ...] = (
        ResourceTypes(parts.types),
        KeyNoun(Keys(parts.policies, parts.settings.auth.keys)),
    )
    return Manage(nouns, parts.settings.limits)
