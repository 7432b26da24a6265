"""What is known of a linked page, and when it is asked for next."""

import hashlib
from dataclasses import dataclass, replace

from gateway.links.fetch import FetchedPage, FetchError

FIRST_RETRY = 60.0  # seconds; doubles with every failure up to the link's own interval
NODE_SPREAD = 2.0  # seconds over which the nodes of a cluster notice that a link is due


@dataclass(frozen=True, slots=True)
class LinkCopy:
    """What is known of a page now."""

    text: str
    age: float  # seconds since the server last confirmed it
    size: int  # bytes of text
    error: str | None  # why the latest attempt failed, if it did
    failures: int


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """How a link does, for people. Times are seconds since 1970."""

    url: str
    fetched_at: float | None  # when the server last confirmed the copy in use; None: there is no copy
    tried_at: float | None
    size: int | None
    age: float | None
    error: str | None
    failures: int
    due_at: float | None  # when it is asked for next; None: not kept fresh


@dataclass(frozen=True, slots=True)
class LinkRecord:
    """What is kept of a link between attempts and restarts."""

    text: str | None = None
    fetched_at: float = 0
    tried_at: float = 0
    etag: str | None = None
    last_modified: str | None = None
    size: int = 0
    error: str | None = None
    failures: int = 0

    def succeeded(self, fetched: FetchedPage, now: float) -> "LinkRecord":
        """After an answer; raises FetchError for one without text."""
        if fetched.text is None:  # 304
            return replace(self, fetched_at=now, tried_at=now, error=None, failures=0)
        if not fetched.text.strip():
            raise FetchError("the page holds no text")
        return LinkRecord(
            text=fetched.text,
            fetched_at=now,
            tried_at=now,
            etag=fetched.etag,
            last_modified=fetched.last_modified,
            size=len(fetched.text.encode()),
        )

    def failed(self, error: Exception, now: float) -> "LinkRecord":
        return replace(self, tried_at=now, error=str(error), failures=self.failures + 1)


def due_at(record: LinkRecord | None, interval: float, factor: float) -> float:
    """When a link is asked for next: at once, after its interval, or sooner after a failure."""
    if record is None:
        return 0
    if record.failures:
        backoff = FIRST_RETRY * 2.0 ** min(record.failures - 1, 20)
        return record.tried_at + min(interval, backoff) * factor
    return record.fetched_at + interval * factor


def spread(url: str) -> float:
    """0.9 to 1.1, the same for a link each time: links of one policy are not all asked for at one moment."""
    return 0.9 + 0.2 * fraction(url)


def delay(owner: str, url: str, interval: float) -> float:
    """How much later than others a node notices: not all of them reach for the lease at one moment."""
    return min(NODE_SPREAD, 0.02 * interval) * fraction(f"{owner} {url}")


def fraction(text: str) -> float:
    """0 to 1, the same for a text each time."""
    return hashlib.sha256(text.encode()).digest()[0] / 255


def key_of(url: str) -> str:
    """Where the copy of a page is kept in the store."""
    return f"link:{hashlib.sha256(url.encode()).hexdigest()}"
