"""What an import does with each object of a bundle."""

from typing import Any, Literal

import msgspec
from pydantic import ValidationError

from gateway.control.diff import list_differences
from gateway.control.object_bodies import make_stored_body
from gateway.control.writer import Change
from gateway.domain.record import Record
from gateway.policies.files import SECTIONS
from gateway.policies.workspace import AdoptedName

Action = Literal["create", "update", "adopt", "unchanged", "delete"]


class PlannedChange(msgspec.Struct, frozen=True):
    """What an import does with one object."""

    kind: str
    alias: str
    action: Action
    former: Any = None
    data: Any = None
    record: Record | None = None

    @property
    def changes(self) -> list[dict[str, Any]]:
        """Field by field; empty for an object that is created or deleted."""
        if self.action not in ("update", "adopt"):
            return []
        return list_differences(*(_make_comparable(self.kind, self.alias, data) for data in (self.former, self.data)))

    def to_change(self) -> Change:
        body = None if self.action == "delete" else make_stored_body(self.kind, self.alias, self.data)
        return Change(self.kind, self.alias, body, self.record)

    @property
    def name(self) -> AdoptedName:
        return self.kind, self.alias


def _make_comparable(kind: str, alias: str, data: Any) -> Any:
    if kind not in SECTIONS:  # items of the knowledge graph have one form only
        return data
    try:
        return make_stored_body(kind, alias, data)
    except ValidationError:  # stored by another version of the gateway
        return data
