"""What is known about a linked page, and when it is fetched next."""

import hashlib

import msgspec
from msgspec.structs import replace

from gateway.links.page import FetchedPage, FetchError

FIRST_RETRY_SECONDS = 60.0  # doubles with every failure, up to the link's own interval
REPLICA_SPREAD_SECONDS = 2.0  # over which the replicas notice that a link is due


class LinkCopy(msgspec.Struct, frozen=True):
    """The last good copy of a page."""

    text: str
    age: float  # seconds since the server last confirmed it
    size: int  # bytes of text
    error: str | None  # why the latest attempt failed, if it did
    failures: int


class LinkStatus(msgspec.Struct, frozen=True):
    """The state of a link, for people. Times are seconds since 1970."""

    url: str
    fetched_at: float | None  # when the server last confirmed the copy in use; None: there is no copy
    tried_at: float | None
    size: int | None
    age: float | None
    error: str | None
    failures: int
    due_at: float | None  # when it is fetched next; None: it is not tracked


class LinkSchedule(msgspec.Struct, frozen=True):
    """What is constant about a link's times on one replica, computed once."""

    factor: float  # of its interval
    fraction: float  # 0 to 1: how late this replica is among all


class LinkRecord(msgspec.Struct, frozen=True):
    """What is stored about a link between attempts and restarts."""

    text: str | None = None
    fetched_at: float = 0
    tried_at: float = 0
    etag: str | None = None
    last_modified: str | None = None
    size: int = 0
    error: str | None = None
    failures: int = 0

    def apply_success(self, page: FetchedPage, now: float) -> "LinkRecord":
        """The record after a reply; raises FetchError for one without text."""
        if page.text is None:  # 304
            return replace(self, fetched_at=now, tried_at=now, error=None, failures=0)
        if not page.text.strip():
            raise FetchError("the page contains no text")
        return LinkRecord(
            text=page.text,
            fetched_at=now,
            tried_at=now,
            etag=page.etag,
            last_modified=page.last_modified,
            size=len(page.text.encode()),
        )

    def apply_failure(self, error: Exception, now: float) -> "LinkRecord":
        return replace(self, tried_at=now, error=str(error), failures=self.failures + 1)


def compute_due_time(record: LinkRecord | None, interval: float, factor: float) -> float:
    """When a link is fetched next: at once, after its interval, or sooner after a failure."""
    if record is None:
        return 0
    if record.failures:
        backoff = FIRST_RETRY_SECONDS * 2.0 ** min(record.failures - 1, 20)
        return record.tried_at + min(interval, backoff) * factor
    return record.fetched_at + interval * factor


def compute_interval_factor(url: str) -> float:
    """0.9 to 1.1, constant per link, so that the links of one policy are not all fetched at the same moment."""
    return 0.9 + 0.2 * hash_to_fraction(url)


def compute_replica_delay(fraction: float, interval: float) -> float:
    """How much later than others a replica notices, so that not all of them request the lease at the same moment."""
    return min(REPLICA_SPREAD_SECONDS, 0.02 * interval) * fraction


def hash_to_fraction(text: str) -> float:
    """0 to 1, constant per text."""
    return hashlib.sha256(text.encode()).digest()[0] / 255


def make_store_key(url: str) -> str:
    """The key of a page's copy in the store."""
    return f"link:{hashlib.sha256(url.encode()).hexdigest()}"
