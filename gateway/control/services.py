"""The services of the control plane over one gateway's policies; they share one writer."""

import msgspec

from gateway.control.contexts import Contexts
from gateway.control.drafts import Drafts
from gateway.control.objects import Objects
from gateway.control.sizes import SizeCheck
from gateway.control.versions import VersionedObjects, Versions
from gateway.control.writer import PolicyWriter
from gateway.policies.repository import PolicyRepository
from gateway.stores.protocols import EphemeralStore, RecordStore


class ControlServices(msgspec.Struct, frozen=True):
    """What the management API changes policies with."""

    writer: PolicyWriter
    objects: Objects
    records: RecordStore
    drafts: Drafts
    contexts: Contexts
    sizes: SizeCheck | None = None  # None: nobody is told that a context is larger than a budget

    @classmethod
    def build(
        cls, policies: PolicyRepository, records: RecordStore, store: EphemeralStore, sizes: SizeCheck | None = None
    ) -> "ControlServices":
        writer = PolicyWriter(policies, store)
        objects = Objects(policies, writer)
        return cls(writer, objects, records, Drafts(objects, writer), Contexts(objects, writer), sizes)

    def versions(self, objects: VersionedObjects) -> Versions:
        """The versions of one kind of object."""
        return Versions(objects, self.records, self.writer)
