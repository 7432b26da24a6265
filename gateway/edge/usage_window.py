"""What one key used in the last minute, in slices of 5 s.

The current slice and the 12 before it are added up. So no 60 s exceed a limit, and a key waits at most one slice too
long.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import msgspec

SLICE = 5.0
SLICES = 12  # a minute


class Reservation(msgspec.Struct, frozen=True):
    """A request that waits for the store's word; it is told whether it fits."""

    limit: int
    amount: int  # 1: it counts as one request; 0: it only looks
    answer: asyncio.Future[bool]


class UsageSettlement(msgspec.Struct, frozen=True):
    """What the store is told about one window."""

    window: "UsageWindow"
    number: int  # the slice at the time
    amounts: Mapping[int, int]  # by slice; 0 only reads
    reservations: Sequence[Reservation]

    @property
    def reserved(self) -> int:
        """How many of the current slice's additions are reservations."""
        return sum(one.amount for one in self.reservations)

    def list_additions(self) -> Iterable[tuple[str, int]]:
        """The names of the slices in the store, each with what is added."""
        for number, amount in self.amounts.items():
            yield self.window.name_slice(number), amount + (self.reserved if number == self.number else 0)


class UsageWindow:
    """The requests or tokens of one key: what the store has said, and what it has not been told yet."""

    __slots__ = ("_counts", "_pending", "account", "number", "settled", "unsettled", "used", "waiting")

    def __init__(self, account: str) -> None:
        self.account = account
        self.number = 0  # the current slice
        self.settled: int | None = None  # the slice in which the store was last heard; None: never
        self.used = 0  # in all slices, what the store has not been told included
        self.unsettled = 0  # of this, what the store has not confirmed
        self.waiting: list[Reservation] = []
        self._counts: dict[int, int] = {}
        self._pending: dict[int, int] = {}

    def advance(self, now: float) -> None:
        """Make the slice of this moment the current one; a clock that is set back a little does not go back here."""
        number = int(now // SLICE)
        if number < self.number - SLICES:
            self.settled = None  # the clock was set back: what the store has of these slices was never heard
        elif number <= self.number:
            return
        self.number = number
        self._sum_up()

    def is_used(self, number: int) -> bool:
        """Whether it has been used lately, seen from this slice, or holds what the store has not been told."""
        return number - self.number <= 1 or bool(self.unsettled or self.waiting)

    def add(self, amount: int) -> None:
        """Count in the current slice."""
        self._change(self._counts, self.number, amount)
        self._change(self._pending, self.number, amount)
        self.used += amount
        self.unsettled += amount

    def compute_wait(self, limit: int, now: float) -> float:
        """Seconds until one more fits if nothing else comes; 0: it fits now."""
        counts = [self._counts.get(number, 0) for number in range(self.number - SLICES, self.number + 1)]
        return compute_wait(counts, limit - 1, now - self.number * SLICE)

    def name_slice(self, number: int) -> str:
        return f"{self.account}:{number}"

    def begin_settlement(self) -> UsageSettlement:
        """What the store is told now: everything new, and the slices that others may have added to since the last time.

        The slice before the last one heard is read again, because another process may have been late with it.
        """
        first = self.number - SLICES
        if self.settled is not None:
            first = max(first, self.settled - 1)
        amounts = {number: self._pending.get(number, 0) for number in range(first, self.number + 1)}
        reservations = [one for one in self.waiting if not one.answer.done()]  # clients may have left meanwhile
        self.waiting = []
        return UsageSettlement(self, self.number, amounts, reservations)

    def finish_settlement(self, settlement: UsageSettlement, sums: Mapping[str, int]) -> None:
        """Take over what the store said, and answer those who waited for it."""
        for number, amount in settlement.amounts.items():
            since = self._pending.pop(number, 0) - amount
            if since:
                self._pending[number] = since
            self._counts[number] = sums[self.name_slice(number)] + since
        current = self.settled = settlement.number
        self._counts[current] -= settlement.reserved
        self._sum_up()
        for one in settlement.reservations:
            fits = self.used < one.limit and not one.answer.done()
            if fits:
                self._change(self._counts, current, one.amount)
                self.used += one.amount
            else:
                self._change(self._pending, current, -one.amount)  # the store counted it: it is given back
                self.unsettled -= one.amount
            tell(one, fits)

    @staticmethod
    def _change(amounts: dict[int, int], number: int, amount: int) -> None:
        amounts[number] = amounts.get(number, 0) + amount

    def answer_alone(self, reservations: Iterable[Reservation]) -> None:
        """Answer by what this process knows, while the store cannot be asked."""
        for one in reservations:
            if not one.answer.done():
                fits = self.used < one.limit
                if fits:
                    self.add(one.amount)
                tell(one, fits)

    def _sum_up(self) -> None:
        """Add up what is still within the window, and forget the rest."""
        first, last = self.number - SLICES, self.number
        self._counts = {number: count for number, count in self._counts.items() if first <= number <= last}
        self._pending = {number: count for number, count in self._pending.items() if first <= number <= last}
        self.used = sum(self._counts.values())
        self.unsettled = sum(self._pending.values())


def tell(reservation: Reservation, fits: bool) -> None:
    if not reservation.answer.done():  # else its client has left
        reservation.answer.set_result(fits)


def compute_wait(counts: Sequence[int], room: int, elapsed: float) -> float:
    """Seconds until the sum of the slices, oldest first, is at most `room`, if nothing else comes; 0: it is now."""
    total = sum(counts)
    leaving = 0
    while total > room and leaving < len(counts):
        total -= counts[leaving]
        leaving += 1
    return max(leaving * SLICE - elapsed, 0.0) if leaving else 0.0
