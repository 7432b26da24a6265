"""Numbers for the ids of documents: what searches through arrays know them by."""

from collections.abc import Iterable
from threading import Lock


class DocumentNumbers:
    """Numbers in the order in which ids were first seen. It only grows; any thread may ask."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._lock = Lock()
        self.ids: list[str] = []  # by number

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, id: str) -> int | None:
        return self._numbers.get(id)

    def number(self, ids: Iterable[str]) -> list[int]:
        """The numbers of these ids; a new one gets the next."""
        with self._lock:
            return [self._number(id) for id in ids]

    def _number(self, id: str) -> int:
        known = self._numbers.get(id)
        if known is None:
            self.ids.append(id)
            known = self._numbers[id] = len(self.ids) - 1
        return known
