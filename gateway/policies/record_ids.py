"""Ids of stored objects: they sort by the time at which the objects were made."""

import re

from gateway.domain.record import Record
from gateway.ids import make_id, read_id_time

TIME_DIGITS, RANDOM_BYTES = 13, 3  # of an object's id, which ends with its position in the commit
CLOCK_SKEW = 60.0  # seconds that the clocks of two replicas may differ

_TIMED_ID = re.compile(r"[0-9a-f]{19}")
_OBJECT_ID = re.compile(r"[0-9a-f]{19,}")


def make_id_prefix() -> str:
    """What the ids of the objects of one commit begin with."""
    return make_id(TIME_DIGITS, RANDOM_BYTES)


def is_object_id(name: str) -> bool:
    """Whether a name looks like the id of an object."""
    return _OBJECT_ID.fullmatch(name) is not None


def read_creation_time(record: Record) -> float | None:
    """When an object was made, in seconds since 1970, if its id tells."""
    if not _TIMED_ID.match(record.id):
        return None
    created = read_id_time(record.id, TIME_DIGITS)
    return created if created < record.at + CLOCK_SKEW else None
