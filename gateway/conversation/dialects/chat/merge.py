"""Puts an assistant's message together from deltas.

Fragments are joined once and not as they come: adding each to what is there would copy the whole text every time.
"""

from collections.abc import Hashable
from typing import Any

from gateway.errors import UpstreamInvalid

FRAGMENTED_FIELDS = frozenset({"thinking", "text", "summary", "signature", "data"})  # of list items
MAX_ITEMS = 10_000  # of one list
SKIPPED_FIELDS = frozenset({"tool_calls", "role"})


def merge_deltas(message: dict[str, Any], *deltas: dict[str, Any]) -> None:
    """Add deltas (without their tool calls) to the message; unknown fields are kept."""
    growing: dict[str, FieldMerger] = {}
    for delta in deltas:
        for key, value in delta.items():
            if value is None or key in SKIPPED_FIELDS:
                continue
            merger = growing.get(key)
            if merger is None or not merger.takes(value):
                # A value of another kind replaces what came before it.
                merger = growing[key] = make_merger(value, message.get(key) if merger is None else None)
                message.setdefault(key, None)  # its place among the fields
            merger.add(value)
    message.update((key, merger.join()) for key, merger in growing.items())


class FieldMerger:
    """The value of one field; this one keeps the last."""

    kind: type = object

    def __init__(self, known: Any) -> None:
        self._value = known

    def takes(self, value: Any) -> bool:
        """Whether the value is of the same kind as those before it."""
        return self.kind is not object and isinstance(value, self.kind)

    def add(self, value: Any) -> None:
        self._value = value

    def join(self) -> Any:
        return self._value


class TextMerger(FieldMerger):
    """Adds texts to each other."""

    kind = str

    def __init__(self, known: str | None) -> None:
        self._pieces = [known] if known else []

    def add(self, value: str) -> None:
        self._pieces.append(value)

    def join(self) -> str:
        return "".join(self._pieces)


class ObjectMerger(FieldMerger):
    """Adds the keys of objects to each other."""

    kind = dict

    def __init__(self, known: dict[str, Any] | None) -> None:
        self._fields = dict(known or {})

    def add(self, value: dict[str, Any]) -> None:
        self._fields.update(value)

    def join(self) -> dict[str, Any]:
        return self._fields


class ItemMerger(FieldMerger):
    """Appends list items, or adds them to the item that they are fragments of.

    Reasoning blocks arrive in fragments: numbered ones carry an `index`; others continue the last item of their type
    until a signature closes it.
    """

    kind = list

    def __init__(self, known: list[Any] | None) -> None:
        self._items: list[Any] = []
        self._by_index: dict[Hashable, MergedItem] = {}
        for item in known or []:
            self._append(item)

    def add(self, value: list[Any]) -> None:
        for item in value:
            target = self._find_continued(item)
            if target is None:
                self._append(item)
            else:
                target.add(item)

    def join(self) -> list[Any]:
        return [item.join() if isinstance(item, MergedItem) else item for item in self._items]

    def _append(self, item: Any) -> None:
        if len(self._items) >= MAX_ITEMS:
            raise UpstreamInvalid(f"The upstream sent a message with more than {MAX_ITEMS} items in one list.")
        if isinstance(item, dict):
            merged = MergedItem(item)
            self._items.append(merged)
            if isinstance(index := item.get("index"), Hashable):
                self._by_index.setdefault(index, merged)
        else:
            self._items.append(item)

    def _find_continued(self, item: Any) -> "MergedItem | None":
        """The item that `item` is a further fragment of."""
        if not isinstance(item, dict):
            return None
        if "index" in item:
            return self._by_index.get(item["index"]) if isinstance(item["index"], Hashable) else None
        last = self._items[-1] if self._items else None
        return last if isinstance(last, MergedItem) and last.is_open_thought(item.get("type")) else None


class MergedItem:
    """A list item and its further fragments."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = dict(fields)
        self._texts: dict[str, list[str]] = {}  # of fields that grew

    def is_open_thought(self, kind: Any) -> bool:
        """Whether it is a reasoning block, as `kind` is, that no signature has closed yet."""
        signed = any(self._texts.get("signature") or [self._fields.get("signature")])
        return self._fields.get("type") == kind == "thinking" and not signed

    def add(self, fields: dict[str, Any]) -> None:
        for key, value in fields.items():
            known = self._fields.get(key)
            if isinstance(value, str) and isinstance(known, str) and key in FRAGMENTED_FIELDS:
                self._texts.setdefault(key, [known]).append(value)
            else:
                self._texts.pop(key, None)
                self._fields[key] = value

    def join(self) -> dict[str, Any]:
        return self._fields | {key: "".join(pieces) for key, pieces in self._texts.items()}


MERGERS: tuple[type[FieldMerger], ...] = (TextMerger, ObjectMerger, ItemMerger)


def make_merger(value: Any, known: Any) -> FieldMerger:
    """The merger for values like this one, beginning with what is known if that is of the same kind."""
    merger = next((one for one in MERGERS if isinstance(value, one.kind)), FieldMerger)
    return merger(known if isinstance(known, merger.kind) else None)
