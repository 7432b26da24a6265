"""Which documents still lack vectors, and in which order they get them."""

from collections.abc import Collection, Iterable
from enum import IntEnum
from itertools import islice
from typing import NamedTuple

MOST_PREFERRED = 500  # documents that go first; more at once is an import, which nobody waits for


class DocumentStage(IntEnum):
    """What has to be done for a document."""

    LOOK_UP = 0  # whether its vectors are stored
    HEAD = 1  # embed its first passage
    REST = 2  # embed its other passages


SIZES = {DocumentStage.LOOK_UP: 500, DocumentStage.HEAD: 8, DocumentStage.REST: 4}  # documents that are taken at once


class DocumentWork(NamedTuple):
    """What to do next."""

    stage: DocumentStage
    ids: list[str]


class DocumentQueue:
    """First what somebody has asked for or edited; then whatever is stored, all first passages, all others."""

    def __init__(self) -> None:
        self._waiting: dict[DocumentStage, dict[str, None]] = {stage: {} for stage in DocumentStage}
        self._preferred: dict[str, None] = {}
        self._busy: set[str] = set()  # what was taken and has not changed since
        self._admitted: set[str] = set()
        self.limit = 0  # documents that may have vectors

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def require(self, ids: Iterable[str]) -> None:
        """These documents are new or say something else by now."""
        for id in ids:
            edited = id in self._admitted
            if not edited and len(self._admitted) >= self.limit:
                continue
            self._forget(id)
            self._admitted.add(id)
            self._waiting[DocumentStage.LOOK_UP][id] = None
            if edited:
                self._prefer(id)

    def remove(self, ids: Iterable[str]) -> None:
        """These documents are gone."""
        for id in ids:
            self._forget(id)
            self._admitted.discard(id)
            self._preferred.pop(id, None)

    def prefer(self, ids: Iterable[str]) -> None:
        """Take these first, if they lack vectors."""
        for id in islice(ids, MOST_PREFERRED):
            if any(id in waiting for waiting in self._waiting.values()):
                self._prefer(id)

    def take(self) -> DocumentWork | None:
        """What to do next; None: every document has its vectors."""
        for stage, waiting in self._waiting.items():
            if first := [id for id in self._preferred if id in waiting]:
                return self._take(stage, first[: SIZES[stage]])
        for stage, waiting in self._waiting.items():
            if waiting:
                return self._take(stage, list(islice(waiting, SIZES[stage])))
        return None

    def finish(self, ids: Iterable[str]) -> set[str]:
        """Those of the taken documents that have not changed meanwhile: what was done for them counts."""
        done = self._busy.intersection(ids)
        self._busy -= done
        return done

    def put_back(self, work: DocumentWork) -> None:
        """It could not be done: later."""
        for id in self.finish(work.ids):
            self._waiting[work.stage][id] = None

    def want(self, stage: DocumentStage, ids: Collection[str]) -> None:
        """These have to be embedded, after what already waits for that."""
        self._waiting[stage] |= dict.fromkeys(ids)

    def stop(self) -> None:
        """Give no more vectors to anything: there is no room."""
        for waiting in self._waiting.values():
            waiting.clear()

    def _take(self, stage: DocumentStage, ids: list[str]) -> DocumentWork:
        for id in ids:
            del self._waiting[stage][id]
            if stage is not DocumentStage.LOOK_UP and not any(id in waiting for waiting in self._waiting.values()):
                self._preferred.pop(id, None)  # after a look-up, it still goes first where vectors are missing
        self._busy.update(ids)
        return DocumentWork(stage, ids)

    def _prefer(self, id: str) -> None:
        self._preferred[id] = None
        if len(self._preferred) > MOST_PREFERRED:
            del self._preferred[next(iter(self._preferred))]

    def _forget(self, id: str) -> None:
        self._busy.discard(id)
        for waiting in self._waiting.values():
            waiting.pop(id, None)
