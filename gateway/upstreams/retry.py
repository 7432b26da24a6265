"""Whether a failed call is made again, and when."""

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

from gateway.domain.upstream import UpstreamReply
from gateway.errors import UpstreamError, UpstreamUnreachable

RETRIED: Final = frozenset({429, 500, 502, 503, 504, 529})
MAX_RETRY_AFTER: Final = 2.0  # seconds; whoever asks for more is not waited for
MIN_DELAY: Final = 0.1
MAX_DELAY: Final = 1.0
SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")

Outcome = UpstreamReply | UpstreamError


@dataclass(frozen=True, slots=True)
class Pace:
    """Time and chance, passed in so that tests decide both."""

    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random


def delay_before_retry(outcome: Outcome, attempt: int, pace: Pace) -> float | None:
    """Seconds to wait before calling the same upstream again; None when that would not help."""
    if isinstance(outcome, UpstreamError):
        return backoff(attempt, pace.chance()) if isinstance(outcome, UpstreamUnreachable) else None
    if outcome.status not in RETRIED:
        return None
    asked = retry_after(outcome.headers.get("retry-after", ""), pace.wall())
    if asked is None:
        return backoff(attempt, pace.chance())
    return asked if asked <= MAX_RETRY_AFTER else None


def backoff(attempt: int, chance: float) -> float:
    """Anything between the least delay and a ceiling that doubles with every attempt (`attempt` counts from 0)."""
    ceiling = min(MAX_DELAY, MIN_DELAY * (2 << attempt))
    return MIN_DELAY + chance * (ceiling - MIN_DELAY)


def retry_after(value: str, now: float) -> float | None:
    """Seconds from `now` that a Retry-After header asks for: a number or an HTTP date (RFC 9110 §10.2.3)."""
    value = value.strip()
    if SECONDS.fullmatch(value):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None
