"""What one workspace may store, and the check before every write."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import orjson

from gateway.domain.record import RecordWrite
from gateway.errors import QuotaExceeded
from gateway.policies.workspace import StoredPolicies, read_upload_size
from gateway.settings import QuotaLimits, QuotaSettings

DRAFTS = "drafts"
DRAFT_PREFIX = "draft:"


class QuotaUse(msgspec.Struct, frozen=True):
    """A quota of a workspace and how much of it is used."""

    name: str
    limit: int
    used: int


class Quotas:
    """The quotas of all workspaces."""

    def __init__(self, settings: QuotaSettings) -> None:
        self._settings = settings

    def get_limits(self, workspace: str) -> QuotaLimits:
        """The limits of a workspace: its own, where it has some."""
        own = self._settings.workspaces.get(workspace)
        if own is None:
            return self._settings
        return self._settings.model_copy(update={str(name): limit for name, limit in own.items()})

    def list_uses(self, workspace: str, stored: StoredPolicies, links: int) -> list[QuotaUse]:
        """Every quota of a workspace by name."""
        used = {**measure(workspace, stored), "links": links}
        limits = self.get_limits(workspace)
        return [QuotaUse(name, getattr(limits, name), used.get(name, 0)) for name in sorted(QUOTA_NAMES)]

    def check_writes(self, writes: Sequence[RecordWrite], stored: StoredPolicies) -> None:
        """Raise QuotaExceeded if the writes, all together, go beyond a quota. What does not grow is never refused."""
        for write in writes:
            self._check_body(write)
        for workspace in {write.key.workspace for write in writes}:
            before = measure(workspace, stored)
            after = dict(before)
            for write in writes:
                if write.key.workspace == workspace:
                    _apply(after, write, stored)
            limits = self.get_limits(workspace)
            for name, used in after.items():
                require_quota(name, getattr(limits, name), before.get(name, 0), used)

    def check_links(self, workspace: str, before: int, after: int) -> None:
        """Raise QuotaExceeded if a workspace would have too many links."""
        require_quota("links", self.get_limits(workspace).links, before, after)

    def check_document(self, workspace: str, size: int, stored: StoredPolicies) -> None:
        """Raise QuotaExceeded for an upload that could not be stored: its text need not be extracted then."""
        before, limits = measure(workspace, stored), self.get_limits(workspace)
        require_quota("documents", limits.documents, before["documents"], before["documents"] + 1)
        require_quota(
            "document_bytes", limits.document_bytes, before["document_bytes"], before["document_bytes"] + size
        )

    def _check_body(self, write: RecordWrite) -> None:
        if write.body is None:
            return
        limits = self.get_limits(write.key.workspace)
        require_quota("object_bytes", limits.object_bytes, 0, len(write.body))
        for length in _list_lengths(orjson.loads(write.body)):
            require_quota("list_items", limits.list_items, 0, length)


# Sessions and the knowledge graph are counted where they are stored.
COUNTED_ELSEWHERE = {"sessions", "response_bytes", "entities", "relationships", "axioms", "knowledge_bytes"}
QUOTA_NAMES = frozenset(QuotaLimits.model_fields) - {"object_bytes", "list_items"} - COUNTED_ELSEWHERE


def measure(workspace: str, stored: StoredPolicies) -> dict[str, int]:
    """How much of each quota a workspace uses, links apart."""
    used = dict.fromkeys(QUOTA_NAMES - {"links"}, 0)
    for kind, total in stored.totals.get(workspace, {}).items():
        name = DRAFTS if kind.startswith(DRAFT_PREFIX) else kind
        if name in used:
            used[name] += total.records
        used["record_bytes"] += total.bytes
        used["document_bytes"] += total.uploaded
    return used


def _apply(used: dict[str, int], write: RecordWrite, stored: StoredPolicies) -> None:
    """Count a write."""
    former = stored.by_kind.get(write.key.kind, {}).get(write.key)
    before = former.body if former is not None else None
    size = former.size if former is not None else 0
    kind = DRAFTS if write.key.kind.startswith(DRAFT_PREFIX) else write.key.kind
    if kind in used:
        used[kind] += (write.body is not None) - (before is not None)
    used["record_bytes"] += len(write.body or b"") - size
    used["document_bytes"] += read_upload_size(write.key, write.body) - read_upload_size(write.key, before)


def require_quota(name: str, limit: int, before: int, after: int) -> None:
    """Raise QuotaExceeded if what is used grows beyond a limit."""
    if after > limit and after > before:
        raise QuotaExceeded(name, limit, before, after)


def _list_lengths(value: Any) -> Iterator[int]:
    """The length of every list in a value."""
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            yield len(one)
            pending.extend(one)
        elif isinstance(one, dict):
            pending.extend(one.values())
