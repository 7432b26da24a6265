"""The services of the control plane over one gateway's policies, sharing one desk."""

from dataclasses import dataclass

from gateway.control.base import PolicyRepositoryProtocol
from gateway.control.contexts import Contexts
from gateway.control.drafts import Drafts
from gateway.control.objects import Objects
from gateway.control.versions import History, Versioned, Versions
from gateway.control.writer import PolicyWriter
from gateway.stores.protocols import EphemeralStore


@dataclass(frozen=True, slots=True)
class Services:
    """What the API and the command line manage policies with."""

    desk: PolicyWriter
    objects: Objects
    history: History
    drafts: Drafts
    contexts: Contexts

    @classmethod
    def over(cls, book: PolicyRepositoryProtocol, history: History, store: EphemeralStore) -> "Services":
        desk = PolicyWriter(book, store)
        objects = Objects(book, desk)
        return cls(desk, objects, history, Drafts(objects, desk), Contexts(objects, desk))

    def versions(self, objects: Versioned) -> Versions:
        """The versions of one kind of object."""
        return Versions(objects, self.history, self.desk)
