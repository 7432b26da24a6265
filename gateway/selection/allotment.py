"""Who may spend what of a budget: a share is reserved for each category, and what one leaves over flows on."""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import msgspec

from gateway.domain.collector import Category
from gateway.domain.scope import Scope

# The order in which categories are served: first what is the same for every question, then what depends on it.
SCOPE_ORDER = (Category.ALWAYS, Category.NAMED, Category.TOOLS, Category.CATALOGUE)
VOLATILE_ORDER = (
    Category.TASK,
    Category.FOCUS,
    Category.SEMANTIC,
    Category.RELATIONS,
    Category.ACTIVITY,
    Category.KNOWLEDGE,
)


class BudgetShares(msgspec.Struct, frozen=True):
    """Tokens that are reserved by category, of a budget of `whole` tokens; a request's own budget scales them."""

    tokens: tuple[tuple[Category, int], ...] = ()
    whole: int = 1


NO_SHARES = BudgetShares()  # nothing is reserved: each takes what those before it leave


class ShareSettings(msgspec.Struct, frozen=True):
    """The configured shares, of `whole` tokens, and what request types have instead."""

    whole: int = 1
    shares: Mapping[str, int] = msgspec.field(default_factory=dict)
    types: Mapping[str, Mapping[str, int]] = msgspec.field(default_factory=dict)  # of a request: assist, chat …

    def resolve(self, scope: Scope) -> BudgetShares:
        """The shares of a scope: those of the agent, its profile, the request's type and the configuration.

        Each level speaks of its own total; one that has none speaks of the next broader one's.
        """
        merged, whole = {**self.shares, **self.types.get(scope.request.type or "", {})}, max(1, self.whole)
        for source in (scope.profile, scope.agent, scope.recipe):
            if source is None:
                continue
            total = source.budget.total or whole
            merged = {name: tokens * total // whole for name, tokens in merged.items()} | dict(source.budget.shares)
            whole = total
        order = (*SCOPE_ORDER, *VOLATILE_ORDER)
        return BudgetShares(tuple((one, merged[one]) for one in order if merged.get(one)), whole)


NOTHING_RESERVED = ShareSettings()


class Need(NamedTuple):
    """What a category needs, seen with some room."""

    tokens: int  # for everything, or if that is too much for what is never left out
    complete: bool  # a larger room would place nothing more


MeasureNeed = Callable[[int], Need]  # a room → what is needed of it


class Allotment(msgspec.Struct, frozen=True):
    """A budget divided among the categories that a scope has.

    Rooms are exact fractions of the budget: rounded shares would make a larger budget smaller for somebody. Carries are
    therefore in units of 1 / `whole` tokens.
    """

    budget: int
    shares: Mapping[Category, int]
    whole: int  # what the shares are parts of, never less than their sum

    @property
    def start(self) -> int:
        """What nobody has reserved flows on from the beginning."""
        return self.budget * (self.whole - sum(self.shares.values()))

    def measure_room(self, category: Category, carry: int) -> int:
        """The tokens that a category may spend: its share and what those before it left."""
        return max(0, self._sum(category, carry) // self.whole)

    def pass_on(self, category: Category, carry: int, spent: int, exhausted: bool) -> int:
        """What flows on after a category was served.

        Only a category that has nothing left to place passes its leftover on: any other needs it in a larger budget.
        """
        leftover = self._sum(category, carry) - spent * self.whole
        return leftover if exhausted else min(0, leftover)

    def divide(self, carry: int, needs: Mapping[Category, MeasureNeed], reserved: int) -> dict[Category, int]:
        """The rooms of categories in their order: each passes on what it does not need.

        What the last one leaves goes back to the first that has too little, but for some reserved tokens. It grows with
        the budget, as does what each category keeps, so that nobody has less of a larger budget; nor has anybody less
        than without what goes back.
        """
        rooms: dict[Category, int] = {}
        short: dict[Category, int] = {}  # what they have, or have overdrawn already
        for category, measure in needs.items():
            room = self._sum(category, carry)
            need = measure(max(0, room // self.whole))
            carry = self.pass_on(category, carry, need.tokens, need.complete)
            rooms[category] = room
            if not need.complete:
                short[category] = max(room, need.tokens * self.whole)
        left = carry - reserved * self.whole
        for category, room in short.items():
            if left <= 0:
                break
            rooms[category] = room + left
            need = needs[category](rooms[category] // self.whole)
            left = rooms[category] - need.tokens * self.whole if need.complete else 0
        return {category: max(0, room // self.whole) for category, room in rooms.items()}

    def reserve(self, category: Category, leftover: int, tokens: int) -> int:
        """What of a leftover flows on so that the next category has some tokens, if there are so many."""
        return min(leftover, max(0, tokens * self.whole - self._sum(category, 0)))

    def measure_offer(self, carry: int) -> int:
        """The tokens of tools and catalogue together: neither is of use without the other."""
        return self.measure_room(Category.CATALOGUE, self.pass_on(Category.TOOLS, carry, 0, True))

    def measure_rest(self, carry: int) -> int:
        """The tokens that all volatile categories together may spend."""
        return max(0, (self.budget * sum(self.shares.get(one, 0) for one in VOLATILE_ORDER) + carry) // self.whole)

    def measure_part(self, carry: int) -> float:
        """The part of the budget that the volatile categories have."""
        rest = self.budget * sum(self.shares.get(one, 0) for one in VOLATILE_ORDER) + carry
        return rest / (self.budget * self.whole) if self.budget else 0.0

    def _sum(self, category: Category, carry: int) -> int:
        return self.budget * self.shares.get(category, 0) + carry


def allot(budget: int, shares: BudgetShares, present: Collection[Category]) -> Allotment:
    """Reserve shares for the categories that are present, scaled down if together they are more than the whole."""
    reserved = {category: tokens for category, tokens in shares.tokens if category in present}
    return Allotment(budget, reserved, max(shares.whole, sum(reserved.values())))
