"""What collectors of nodes are asked, and contents that they can read without a store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.content.reader import resolve_links
from gateway.domain.collector import Collector, CollectorOrder, CollectorScope
from gateway.domain.content import ActivityKind, Backlink, NodeActivity, NodeContent
from gateway.domain.principal import Principal
from gateway.domain.scope import ContextRequest
from gateway.domain.search import Question
from gateway.domain.snapshot import Snapshot
from gateway.errors import StoreError
from gateway.scopes.scope import build_scope
from gateway.semantic.search.sentences import split_question


@dataclass
class FakeContent:
    """A ContentReader of what a snapshot's policies say; it counts what it is asked."""

    snapshot: Snapshot
    changes: dict[str, NodeContent] = field(default_factory=dict)
    activity: list[NodeActivity] = field(default_factory=list)
    reads: list[Sequence[str]] = field(default_factory=list)
    fails: bool = False
    most: int | None = None  # nodes that are read at once; None: all

    async def read(self, workspace: str, ids: Sequence[str]) -> Mapping[str, NodeContent]:
        if self.fails:
            raise StoreError("The store does not answer.")
        self.reads.append(ids)
        known = {**self.snapshot.contents, **self.changes}
        read = ids[: self.count_readable(workspace, ids)]
        return {id: resolve_links(known[id], self.snapshot.tree) for id in read if id in known}

    def count_readable(self, workspace: str, ids: Sequence[str]) -> int:
        return len(ids) if self.most is None else min(self.most, len(ids))

    async def list_backlinks(
        self, workspace: str, id: str, limit: int, readers: frozenset[str] | None = None
    ) -> Sequence[Backlink]:
        contents = await self.read(workspace, sorted(self.snapshot.tree.ids))
        found = [
            Backlink(link.type, source) for source, one in contents.items() for link in one.links if link.target == id
        ]
        return found[:limit]

    async def list_activity(self, workspace: str, user: str, since: float, limit: int) -> Sequence[NodeActivity]:
        own = [one for one in self.activity if one.user == user and one.at >= since]
        return sorted(own, key=lambda one: -one.at)[:limit]

    def note_view(self, workspace: str, user: str, id: str) -> None:
        self.activity.append(NodeActivity(id, user, ActivityKind.VIEW, 0.0))


def make_order(
    collector: Collector,
    snapshot: Snapshot,
    asked: ContextRequest,
    question: str = "",
    who: Principal | None = None,
    **options: Any,
) -> CollectorOrder:
    """What a collector is asked for a request."""
    who = who or Principal("tests", rights=frozenset({"act_as_user"}))
    scope, said = build_scope(asked, None, who, snapshot), Question(question) if question else None
    return CollectorOrder(
        workspace=who.workspace,
        principal=who,
        readers=who.readers(asked.user),
        scope=scope,
        snapshot=snapshot,
        question=said,
        query=split_question(said or Question("")),
        searchable=(),
        options=collector.options(**options),
        room=1000,
        seconds=1.0,
    )


def applies(collector: Collector, snapshot: Snapshot, asked: ContextRequest, **options: Any) -> bool:
    """Whether a collector is asked for requests like this one."""
    order = make_order(collector, snapshot, asked, **options)
    return collector.applies(CollectorScope("default", order.scope, snapshot, frozenset(), frozenset(), order.options))
