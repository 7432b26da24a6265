"""Which buckets a question is about."""

import pytest

from gateway.analytics.reports import LATEST, MOST_BUCKETS, Period
from gateway.domain.statistics import Span

NOON = 20_000 * 86_400 + 43_200
DAY = 86_400


def test_the_last_thirty_days_or_hours_of_a_day_by_default() -> None:
    days, hours = Period.choose(NOON, None, None), Period.choose(NOON, None, None, "hour")
    assert (days.end - days.begin, days.begin % DAY, days.end > NOON) == (30 * DAY, 0, True)
    assert (hours.end - hours.begin, hours.begin % 3600, hours.end) == (DAY, 0, NOON + 3600)


def test_whole_buckets_are_counted() -> None:
    period = Period.choose(NOON, NOON - DAY + 1, NOON + 1)
    assert (period.begin, period.end) == (NOON - DAY - 43_200, NOON + 43_200)
    assert Period.choose(NOON, None, NOON + 43_200).end == NOON + 43_200  # an end is exclusive


@pytest.mark.parametrize(("begin", "end"), [(-6e10, None), (0, 2.5e11), (2.5e11, 0), (None, 253_402_300_799)])
@pytest.mark.parametrize("bucket", ["day", "hour"])
def test_any_time_that_can_be_asked_about_is_bounded(begin: float | None, end: float | None, bucket: str) -> None:
    period = Period.choose(NOON, begin, end, bucket)  # type: ignore[arg-type]
    assert period.begin >= 0
    assert period.end <= LATEST
    assert period.end - period.begin <= MOST_BUCKETS * period.span
    assert set(period.describe()) == {"from", "to", "bucket"}
    assert period.span in (Span.DAY, Span.HOUR)
