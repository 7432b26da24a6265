"""The figures of a run, and whether the honest tenant got its share."""

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from scripts.chaos_run.honest import Sample, Window

MOST_SLOWER = 2.0  # times its p99 alone
MOST_DEGRADED = 0.01  # more of its answers than alone
DRAWS = 400  # of rounds, by which the spread of the ratio is told
QUIET_CORES = 0.3  # that others may use in a round that says something about the gateway


class Round(NamedTuple):
    """Windows that follow each other, so that all see the same machine."""

    alone: Window
    attacked: Window
    control: Window
    others: float = 0.0  # cores that neither the run nor the gateway used, in the worst of the three


class Spread(NamedTuple):
    """Between which two values nine of ten draws of the same rounds lie."""

    low: float
    high: float


NO_SPREAD = Spread(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Figures:
    """What the honest tenant got in all phases of a kind."""

    requests: int
    failed: int
    degraded: float  # share
    p50_ms: float
    p95_ms: float
    p99_ms: float
    lag_ms: float = 0.0  # p99 of the time that the smallest request takes: how late the event loop is

    @classmethod
    def compute(cls, windows: Sequence[Window]) -> "Figures":
        samples = [sample for window in windows for sample in window.samples]
        if not samples:
            raise ValueError("there are no samples")
        times, lags = _sort_times(samples), sorted(1000 * lag for window in windows for lag in window.lags)
        return cls(
            requests=len(samples),
            failed=sum(not sample.ok for sample in samples),
            degraded=sum(sample.degraded for sample in samples) / len(samples),
            p50_ms=_get_quantile(times, 0.5),
            p95_ms=_get_quantile(times, 0.95),
            p99_ms=_get_quantile(times, 0.99),
            lag_ms=_get_quantile(lags, 0.99) if lags else 0.0,
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """All sides of a run."""

    alone: Figures
    attacked: Figures
    control: Figures  # beside processes that burn as much CPU time as the attack took
    spread: Spread = NO_SPREAD  # of `slower`
    others: float = 0.0  # cores that programs used which have no part in this, on average
    rounds: int = 1
    quiet: int = 1  # of the rounds, in which they used little, …
    slower_if_quiet: float = 0.0  # … and the ratio in those

    @classmethod
    def judge(cls, rounds: Sequence[Round]) -> "Verdict":
        """The figures of all rounds; what a single round did to the ratio shows in its spread."""
        dice = random.Random(1)
        ratios = sorted(_compare(dice.choices(rounds, k=len(rounds))) for _ in range(DRAWS))
        quiet = [one for one in rounds if one.others <= QUIET_CORES]
        return cls(
            alone=Figures.compute([one.alone for one in rounds]),
            attacked=Figures.compute([one.attacked for one in rounds]),
            control=Figures.compute([one.control for one in rounds]),
            spread=Spread(_get_quantile(ratios, 0.05), _get_quantile(ratios, 0.95)),
            others=sum(one.others for one in rounds) / len(rounds),
            rounds=len(rounds),
            quiet=len(quiet),
            slower_if_quiet=_compare(quiet) if quiet else 0.0,
        )

    @property
    def slower(self) -> float:
        return self.attacked.p99_ms / self.alone.p99_ms

    @property
    def slower_than_control(self) -> float:
        """What the gateway adds to the cost of sharing a machine."""
        return self.attacked.p99_ms / self.control.p99_ms

    @property
    def more_degraded(self) -> float:
        return self.attacked.degraded - self.alone.degraded

    @property
    def holds(self) -> bool:
        return self.slower <= MOST_SLOWER and self.more_degraded <= MOST_DEGRADED

    def to_json(self) -> dict[str, Any]:
        phases = {"alone": asdict(self.alone), "attacked": asdict(self.attacked), "control": asdict(self.control)}
        ratios = {"p99_ratio": round(self.slower, 3), "p99_ratio_to_control": round(self.slower_than_control, 3)}
        ratios["p99_ratio_low"], ratios["p99_ratio_high"] = (round(one, 3) for one in self.spread)
        others = {"others": round(self.others, 3), "rounds": self.rounds, "quiet_rounds": self.quiet}
        ratios["p99_ratio_quiet"] = round(self.slower_if_quiet, 3)
        return {**phases, **others, **ratios, "more_degraded": round(self.more_degraded, 5), "holds": self.holds}

    def to_text(self) -> str:
        columns = ("p50 ms", "p95 ms", "p99 ms", "lag ms")
        lines = [
            f"{'honest tenant':<14}{'requests':>9}{'failed':>8}{'degraded':>10}" + "".join(map("{:>9}".format, columns))
        ]
        for name, one in (("alone", self.alone), ("attacked", self.attacked), ("control", self.control)):
            times = (one.p50_ms, one.p95_ms, one.p99_ms, one.lag_ms)
            line = f"{name:<14}{one.requests:>9}{one.failed:>8}{one.degraded:>10.2%}"
            lines.append(line + "".join(map("{:>9.1f}".format, times)))
        lines.append(
            f"p99 {self.slower:.2f} times ({self.spread.low:.2f} to {self.spread.high:.2f}; limit {MOST_SLOWER:g}), "
            f"{self.more_degraded:+.2%} degraded (limit {MOST_DEGRADED:+.0%}): {'ok' if self.holds else 'MISSED'}"
        )
        lines.append(
            f"control: as much CPU time burnt by others makes it {self.control.p99_ms / self.alone.p99_ms:.2f} times; "
            f"the attack makes {self.slower_than_control:.2f} times of that"
        )
        disturbed = f"other programs used {self.others:.2f} cores"
        if self.quiet and self.quiet < self.rounds:
            disturbed += (
                f"; p99 {self.slower_if_quiet:.2f} times in the {self.quiet} of {self.rounds} rounds with little"
            )
        return "\n".join((*lines, disturbed))


def _compare(rounds: Sequence[Round]) -> float:
    """How much slower the 99th percentile is under attack."""
    alone, attacked = (
        _sort_times([sample for window in windows for sample in window.samples])
        for windows in ([one.alone for one in rounds], [one.attacked for one in rounds])
    )
    return _get_quantile(attacked, 0.99) / _get_quantile(alone, 0.99)


def _sort_times(samples: Sequence[Sample]) -> list[float]:
    """In milliseconds."""
    return sorted(sample.seconds * 1000 for sample in samples)


def _get_quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
