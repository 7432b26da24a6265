"""The services of the control plane over one gateway's policies, sharing one desk."""

from dataclasses import dataclass

from gateway.control.base import Book
from gateway.control.contexts import Contexts
from gateway.control.desk import Desk
from gateway.control.drafts import Drafts
from gateway.control.objects import Objects
from gateway.control.versions import History, Versioned, Versions
from gateway.stores.base import EphemeralStore


@dataclass(frozen=True, slots=True)
class Services:
    """What the API and the command line manage policies with."""

    desk: Desk
    objects: Objects
    history: History
    drafts: Drafts
    contexts: Contexts

    @classmethod
    def over(cls, book: Book, history: History, store: EphemeralStore) -> "Services":
        desk = Desk(book, store)
        objects = Objects(book, desk)
        return cls(desk, objects, history, Drafts(objects, desk), Contexts(objects, desk))

    def versions(self, objects: Versioned) -> Versions:
        """The versions of one kind of object."""
        return Versions(objects, self.history, self.desk)
