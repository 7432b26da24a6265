"""The activity collector: what the user has edited and looked at lately."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Self

import msgspec
from pydantic import Field

from gateway.collectors.nodes import ProposedNode, is_about_content, make_items
from gateway.collectors.registry import CollectorParts, NoOptions
from gateway.domain.collector import NO_FINDINGS, Category, CollectorOrder, CollectorScope, Findings
from gateway.domain.content import ActivityKind, ContentReader, NodeActivity

HOUR = 3600.0
STEP = 0.02  # that each further entry takes
FIRST = {ActivityKind.EDIT: 0.6, ActivityKind.VIEW: 0.5}  # the score of the latest
AFFINITY = {ActivityKind.EDIT: 1.0, ActivityKind.VIEW: 0.75}


class ActivityOptions(NoOptions):
    """How much of what the user did is shown."""

    recent_edits: int = Field(10, ge=0, le=100, description="Nodes that the user edited.")
    recent_views: int = Field(5, ge=0, le=100, description="Nodes that the user looked at.")
    max_age_hours: float = Field(72, gt=0, le=24 * 366, description="How long ago at most.")
    excerpt: int = Field(400, ge=50, le=100_000, description="Characters of each node.")
    always: bool = Field(False, description="For requests that name neither content nor a type, too.")


class ActivityCollector(msgspec.Struct, frozen=True):
    """Recent edits and views of the user that the request is made for."""

    name: ClassVar = "activity"
    category: ClassVar = Category.ACTIVITY
    priority: ClassVar = 40
    degraded: ClassVar = "content"
    shared: ClassVar = False
    options: ClassVar = ActivityOptions

    content: ContentReader
    clock: Callable[[], float] = time.time

    @classmethod
    def open(cls, parts: CollectorParts) -> Self | None:
        return cls(parts.content) if parts.content is not None else None

    def applies(self, scope: CollectorScope) -> bool:
        return is_about_content(scope, self.name, scope.options.always)

    async def collect(self, order: CollectorOrder) -> Findings:
        options: ActivityOptions = order.options
        most = options.recent_edits + options.recent_views
        if not most:
            return NO_FINDINGS
        since = max(self.clock() - options.max_age_hours * HOUR, order.scope.request.hints.since)
        # The node that the request is about is the one looked at last: one more, and what it takes from both kinds.
        done = await self.content.list_activity(order.workspace, order.actor, since, 2 * most + 2)
        proposed = list(propose_recent(order, done))
        items, unread = await make_items(order, self.content, proposed)
        return Findings(items, considered=len(proposed), unread=unread)


def propose_recent(order: CollectorOrder, done: Sequence[NodeActivity]) -> Iterator[ProposedNode]:
    """The nodes that were edited, then those that were only looked at, the latest first; never the focus itself."""
    options, tree, focus = order.options, order.snapshot.tree, order.scope.node
    edited: set[str] = set()
    for kind, most in ((ActivityKind.EDIT, options.recent_edits), (ActivityKind.VIEW, options.recent_views)):
        place = 0
        for one in done:
            node = tree.get(one.node)
            if one.kind is not kind or place >= most or node is None or node.id in edited:
                continue
            if node == focus or not tree.may_read(order.readers, node):
                continue
            verb = "edited" if kind is ActivityKind.EDIT else "viewed"
            yield ProposedNode(node, FIRST[kind] - STEP * place, f"{verb} lately", options.excerpt, AFFINITY[kind])
            edited.add(node.id)
            place += 1
