"""The figures of a run, and whether the honest tenant got its share."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from scripts.chaos_run.honest import Sample

MOST_SLOWER = 2.0  # times its p99 alone
MOST_DEGRADED = 0.01  # more of its answers than alone


@dataclass(frozen=True, slots=True)
class Figures:
    """What the honest tenant got in all phases of a kind."""

    requests: int
    failed: int
    degraded: float  # share
    p50_ms: float
    p99_ms: float

    @classmethod
    def compute(cls, samples: Sequence[Sample]) -> "Figures":
        if not samples:
            raise ValueError("there are no samples")
        times = sorted(sample.seconds * 1000 for sample in samples)
        return cls(
            requests=len(samples),
            failed=sum(not sample.ok for sample in samples),
            degraded=sum(sample.degraded for sample in samples) / len(samples),
            p50_ms=_get_quantile(times, 0.5),
            p99_ms=_get_quantile(times, 0.99),
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """All sides of a run."""

    alone: Figures
    attacked: Figures
    control: Figures  # beside processes that burn as much CPU time as the attack took

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
        return {**phases, **ratios, "more_degraded": round(self.more_degraded, 5), "holds": self.holds}

    def to_text(self) -> str:
        lines = [f"{'honest tenant':<14}{'requests':>9}{'failed':>8}{'degraded':>10}{'p50 ms':>9}{'p99 ms':>9}"]
        for name, one in (("alone", self.alone), ("attacked", self.attacked), ("control", self.control)):
            line = (
                f"{name:<14}{one.requests:>9}{one.failed:>8}{one.degraded:>10.2%}{one.p50_ms:>9.1f}{one.p99_ms:>9.1f}"
            )
            lines.append(line)
        lines.append(
            f"p99 {self.slower:.2f} times (limit {MOST_SLOWER:g}), "
            f"{self.more_degraded:+.2%} degraded (limit {MOST_DEGRADED:+.0%}): {'ok' if self.holds else 'MISSED'}"
        )
        lines.append(
            f"control: as much CPU time burnt by others makes it {self.control.p99_ms / self.alone.p99_ms:.2f} times; "
            f"the attack makes {self.slower_than_control:.2f} times of that"
        )
        return "\n".join(lines)


def _get_quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
