"""A request that was built and not sent, with what it was built from."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from gateway.conversation.dialect import Dialect
from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.conversation.hidden_turns import HiddenTurns
from gateway.domain.exchange import Exchange, HeaderBytes
from gateway.domain.principal import Principal, may_read
from gateway.domain.selection import Notice
from gateway.domain.snapshot import Snapshot
from gateway.errors import Forbidden
from gateway.pipeline import Pipeline, PreparedRequest
from gateway.preview import describe_request, find_placement, list_summary_notices
from gateway.semantic.service import SemanticService
from gateway.semantic.snapshot_search import SnapshotSearcher
from gateway.sessions.sessions import Sessions


class RequestSource(msgspec.Struct, frozen=True):
    """A request to build: who sends it, what it says, and the session's state if that is not the stored one."""

    principal: Principal
    body: bytes
    headers: HeaderBytes = ()
    sessions: Sessions | None = None  # None: the stored ones
    hidden_turns: HiddenTurns | None = None  # None: the stored ones
    omitted: tuple[str, ...] = ()  # what of the original is not known
    dialect: Dialect = CHAT


class ResolvedRequest(msgspec.Struct, frozen=True):
    """A request as it would be sent."""

    exchange: Exchange
    prepared: PreparedRequest
    placement: str
    source: RequestSource
    notices: tuple[Notice, ...] = ()  # about how things stand now

    def describe(self) -> dict[str, Any]:
        """As `resolve` shows it."""
        return describe_request(self.exchange, self.prepared, self.notices)

    @property
    def texts(self) -> Mapping[str, str]:
        """The text of every resource that is placed, by id."""
        selection = self.prepared.injection.selection
        return {one.candidate.resource.id: one.text for one in (*selection.stable, *selection.volatile)}

    def require_readable(self, caller: Principal) -> None:
        """Raise Forbidden if something was considered that the caller itself may not read."""
        scope, snapshot = self.prepared.scope, self.exchange.snapshot
        user = scope.request.user if caller.may_act_for_users else None
        readers, selection = caller.readers(user), self.prepared.injection.selection
        placed = [one.candidate for one in (*selection.stable, *selection.volatile, *selection.tools)]
        left = [one.candidate for one in (*selection.catalogue, *selection.dropped, *selection.waiting)]
        readable = all(may_read(readers, one.resource.readers) for one in (*placed, *left))
        if not readable or (scope.node is not None and not snapshot.tree.may_read(readers, scope.node)):
            raise Forbidden("The request of this receipt was about something that your key may not read.")


class RequestResolver(msgspec.Struct, frozen=True):
    """Builds requests in any snapshot of a workspace; nothing is sent, stored or shared with requests."""

    pipeline: Pipeline

    async def resolve(self, source: RequestSource, snapshot: Snapshot, *, is_served: bool) -> ResolvedRequest:
        """The request as it would be sent; raises what a chat request would be answered."""
        pipeline = self.pipeline if is_served else self._isolate(snapshot)
        if source.sessions is not None:
            pipeline = replace(pipeline, sessions=source.sessions)
        if source.hidden_turns is not None:
            pipeline = replace(pipeline, hidden_turns=source.hidden_turns)
        exchange = Exchange("preview", source.principal, snapshot, source.headers)
        prepared = await pipeline.prepare(exchange, source.body, source.dialect)
        notices = list_summary_notices(pipeline, exchange, prepared)
        return ResolvedRequest(exchange, prepared, find_placement(pipeline, prepared).value, source, notices)

    def isolate(self, snapshot: Snapshot) -> "RequestResolver":
        """The same for many requests in one snapshot that nobody is served: pass it with `is_served`."""
        return RequestResolver(self._isolate(snapshot))

    def _isolate(self, snapshot: Snapshot) -> Pipeline:
        searcher = self.pipeline.searcher
        search = SnapshotSearcher(searcher, snapshot) if isinstance(searcher, SemanticService) else None
        return replace(self.pipeline, builder=self.pipeline.builder.isolate(search))
