"""What requests and people change in a session; pure functions from one state to the next."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from gateway.domain.resource import Mode
from gateway.domain.session import MAX_STICKY, Session, StickyPick
from gateway.domain.snapshot import Snapshot

MAX_RETAINED = 20  # of what the model fetched; the oldest goes first


class StickyChange(msgspec.Struct, frozen=True):
    """What one request changes in the picks that stay; what others change at the same time stays too."""

    before: tuple[StickyPick, ...]  # as the request found them
    after: tuple[StickyPick, ...]

    def apply(self, session: Session) -> Session:
        changed = {one.id: one for one in self.after if one not in self.before}
        gone = {one.id for one in self.before} - {one.id for one in self.after}
        stays = {one.id: one for one in session.sticky if one.id not in gone}
        sticky = tuple((stays | changed).values())[-MAX_STICKY:]
        return session if sticky == session.sticky else replace(session, sticky=sticky)


class SessionChange(msgspec.Struct, frozen=True):
    """What one request changes."""

    pin: tuple[str, ...] = ()
    unpin: tuple[str, ...] = ()
    content: str | None = None  # None: stays
    sticky: StickyChange | None = None

    def apply(self, session: Session, snapshot: Snapshot) -> Session:
        """The session afterwards; the same object if nothing changes."""
        if self.pin or self.unpin:
            session = remove_items(add_items(session, self.pin), self.unpin, snapshot)
        if self.content is not None and self.content != session.content:
            session = replace(session, content=self.content)
        return session if self.sticky is None else self.sticky.apply(session)


def add_items(session: Session, ids: Iterable[str]) -> Session:
    """Add resources whatever their mode; what had been removed comes back."""
    wanted = tuple(dict.fromkeys(ids))
    added = tuple(dict.fromkeys((*session.added, *wanted)))
    removed = drop_ids(session.removed, wanted)
    if (added, removed) == (session.added, session.removed):
        return session
    return replace(session, added=added, removed=removed)


def remove_items(session: Session, ids: Iterable[str], snapshot: Snapshot) -> Session:
    """Take resources out of the session.

    What is only there because somebody added it or the model fetched it goes as it came; everything else is kept out
    from now on, although its mode is `always` or a search would find it.
    """
    wanted = tuple(dict.fromkeys(ids))
    if not wanted:
        return session
    here = {*session.added, *session.retained}
    kept_out = [one for one in wanted if one not in here or is_always(one, snapshot)]
    return replace(
        session,
        added=drop_ids(session.added, wanted),
        retained=drop_ids(session.retained, wanted),
        removed=tuple(dict.fromkeys((*session.removed, *kept_out))),
    )


def retain_items(session: Session, ids: Iterable[str]) -> Session:
    """Keep what the model fetched, the latest last."""
    fetched = tuple(dict.fromkeys(ids))
    kept = (*drop_ids(session.retained, fetched), *drop_ids(fetched, (*session.added, *session.removed)))
    return session if kept == session.retained else replace(session, retained=kept[-MAX_RETAINED:])


def drop_ids(ids: Iterable[str], gone: Sequence[str]) -> tuple[str, ...]:
    left_out = set(gone)
    return tuple(one for one in ids if one not in left_out)


def is_always(identity: str, snapshot: Snapshot) -> bool:
    resource = snapshot.resources.get(identity)
    return resource is not None and resource.mode is Mode.ALWAYS
