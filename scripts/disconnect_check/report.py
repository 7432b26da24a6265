"""What became of the cases: upstreams closed in time, one receipt each, nothing left behind."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.domain.receipt import Receipt
from scripts.disconnect_check.case import HAS_UPSTREAM, MOST_CALLS, Case, Phase
from scripts.disconnect_check.stage import Usage

CLOSED_WITHIN = 1.0  # seconds
EXPECTED = {phase: {"aborted"} for phase in Phase} | {Phase.FINISH: {"ok", "aborted"}}


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """All cases of one phase."""

    phase: Phase
    count: int
    statuses: Mapping[str, int]
    slowest: float | None  # seconds until an upstream was closed; None: there was none to close
    faults: tuple[str, ...]

    def to_text(self) -> str:
        found = ", ".join(f"{count} {status}" for status, count in sorted(self.statuses.items()))
        closed = "no upstream to close" if self.slowest is None else f"upstream closed within {self.slowest:.3f} s"
        return f"{self.phase:8} {self.count:5} left: {found}; {closed}"


def report_phase(phase: Phase, cases: Sequence[Case], receipts: Sequence[Receipt]) -> PhaseReport:
    """Judge the cases of one phase by the receipts that came of them."""
    faults = [f"{case.name}: {case.error}" for case in cases if case.error]
    most = MOST_CALLS.get(phase, 1)
    faults += [f"{case.name}: {case.calls} upstream calls" for case in cases if case.calls > most]
    slowest = max((case.delay for case in cases if case.closed_at), default=None) if phase in HAS_UPSTREAM else None
    if slowest is not None and slowest > CLOSED_WITHIN:
        faults.append(f"an upstream was closed only after {slowest:.3f} s")
    statuses = Counter(one.status for one in receipts)
    faults += [f"{count} receipts with status {one}" for one, count in statuses.items() if one not in EXPECTED[phase]]
    if phase is Phase.BODY:  # nothing is known of the request but its head
        if len(receipts) != len(cases):
            faults.append(f"{len(receipts)} receipts of {len(cases)} requests")
    else:
        counts = Counter(one.session for one in receipts)
        faults += [f"{one.name}: {counts[one.name]} receipts" for one in cases if counts[one.name] != 1]
    return PhaseReport(phase, len(cases), statuses, slowest, tuple(faults))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The whole run."""

    phases: Sequence[PhaseReport]
    before: Usage
    after: Usage
    in_flight: int
    lost: int  # receipts
    strays: int = 0  # receipts that belong to no case

    def list_faults(self) -> list[str]:
        found = [fault for phase in self.phases for fault in phase.faults]
        left = Counter(self.after.tasks) - Counter(self.before.tasks)
        found += [f"{count} tasks left: {name}" for name, count in left.items()]
        if (more := self.after.descriptors - self.before.descriptors) > 0:
            found.append(f"{more} descriptors left")
        counts = {"requests in flight": self.in_flight, "receipts lost": self.lost, "receipts too many": self.strays}
        return found + [f"{count} {name}" for name, count in counts.items() if count]

    def to_text(self) -> str:
        count = sum(phase.count for phase in self.phases)
        faults = self.list_faults()
        lines = [phase.to_text() for phase in self.phases]
        more = self.after.descriptors - self.before.descriptors
        tasks = len(self.after.tasks) - len(self.before.tasks)
        lines.append(f"{count:,} disconnects: {tasks:+d} tasks, {more:+d} descriptors, {len(faults)} faults")
        return "\n".join([*lines, *faults[:20]])
