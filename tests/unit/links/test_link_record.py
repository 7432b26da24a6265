import pytest

from gateway.links.record import FIRST_RETRY_SECONDS, LinkRecord, compute_due_time, compute_interval_factor


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (None, 0),
        (LinkRecord(text="x", fetched_at=100), 100 + 86_400),
        (LinkRecord(tried_at=100, failures=1), 100 + FIRST_RETRY_SECONDS),
        (LinkRecord(tried_at=100, failures=4), 100 + FIRST_RETRY_SECONDS * 8),
        (LinkRecord(text="x", fetched_at=1, tried_at=100, failures=30), 100 + 86_400),
    ],
)
def test_retries_come_sooner_than_refreshes_and_then_less_and_less_often(record, expected):
    assert compute_due_time(record, 86_400, 1.0) == expected


def test_links_are_spread_by_a_tenth():
    factors = {compute_interval_factor(f"https://example.com/{number}") for number in range(200)}
    assert all(0.9 <= factor <= 1.1 for factor in factors)
    assert len(factors) > 50
