"""What everything in a block costs; other rooms know how it is written."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from gateway.domain.candidate import Candidate
from gateway.domain.collector import Category
from gateway.domain.resource import Resource

EntryCost = Callable[[Resource, str], int]  # a resource and its text, whole or cut → tokens of the entry


CHARACTERS = 4  # of a token, about


class LinePrice(NamedTuple):
    """The tokens of a catalogue entry, and of its description."""

    entry: int = 0
    description: int = 0


class BlockPrices(msgspec.Struct, frozen=True):
    """The tokens of all that stands around entries."""

    marker: int = 0  # before resources
    end: int = 0  # after a block
    schemas: int = 0  # of our tools
    catalogue_frame: int = 0  # the marker of the catalogue and the hint below it
    line: Callable[[Resource], LinePrice] = lambda resource: LinePrice()
    more: Callable[[int], int] = lambda hidden: 0  # the line that says how many entries are not shown
    section: Callable[[Category], int] = lambda category: 0  # the marker of a section
    note: Callable[[str], int] = lambda text: 0  # the line of a section that has no items

    def price_offer(self, hidden: int) -> int:
        """The tools with the shortest catalogue that there is: a line that says how much can be found."""
        return self.schemas + self.catalogue_frame + self.more(hidden)

    def frame(self, *, resources: bool, anything: bool) -> int:
        """The markers of a block."""
        return (self.marker if resources else 0) + (self.end if resources or anything else 0)


FREE = BlockPrices()


class Pricing(msgspec.Struct, frozen=True):
    """What entries cost; whole resources are counted once for all selections of a scope."""

    cost: EntryCost
    prices: BlockPrices = FREE
    known: dict[str, int] = msgspec.field(default_factory=dict)  # tokens by resource id
    starts: dict[tuple[str, int], int] = {}  # of texts that were counted up to some character

    def price(self, candidate: Candidate) -> int:
        resource = candidate.resource
        tokens = self.known.get(resource.id)
        if tokens is None:
            tokens = self.known[resource.id] = self.cost(resource, resource.text or "")
        return tokens

    def price_start(self, resource: Resource, end: int) -> int:
        """What a resource costs up to a character: whoever divides a budget asks that again and again."""
        tokens = self.starts.get((resource.id, end))
        if tokens is None:
            tokens = self.starts[resource.id, end] = self.cost(resource, (resource.text or "")[:end])
        return tokens

    def estimate(self, candidate: Candidate) -> int:
        """About what an entry costs: counting texts that nobody places would take most of a request's time."""
        resource = candidate.resource
        return self.known.get(resource.id) or 1 + len(resource.text or "") // CHARACTERS

    def forget(self) -> "Pricing":
        """The same prices for candidates of one request, of which nothing may be kept."""
        return Pricing(self.cost, self.prices)
