"""Other content that a request speaks of: suggested to the client, never used by itself."""

import asyncio
from contextlib import suppress

from gateway.domain.chat import ChatRequest
from gateway.domain.content_names import ContentNames, Mention
from gateway.domain.exchange import Exchange
from gateway.domain.node import Node
from gateway.domain.scope import Scope
from gateway.domain.snapshot import Snapshot
from gateway.errors import WorkspaceBusy
from gateway.fair_queue import FairThreads

PATIENCE = 0.05  # seconds that a request waits for the names of a large tree; the next one finds them


class ContentSuggester:
    """Looks for the names of content in questions; the names of a tree are indexed when they are first needed."""

    def __init__(self, threads: FairThreads) -> None:
        self._threads = threads
        self._building: dict[ContentNames, asyncio.Task[None]] = {}

    async def suggest(self, exchange: Exchange, scope: Scope, request: ChatRequest) -> str | None:
        """The path of the content that the last user text names, if it is not what the request is about."""
        names = exchange.snapshot.tree.names
        if not (names.is_built or await self._build(names, exchange.principal.workspace)):
            return None
        question = request.dialect.find_question(request.messages)
        for mention in names.find(question.text if question is not None else "", scope.readers):
            path = choose_path(mention, scope, exchange.snapshot)
            if path is not None:
                return path
        return None

    async def _build(self, names: ContentNames, workspace: str) -> bool:
        """Index the names off the loop, once; False if that takes too long to wait for."""
        building = self._building.get(names)
        if building is None:
            building = self._building[names] = asyncio.create_task(self._threads.run(workspace, names.build))
            building.add_done_callback(lambda done: self._forget(names, done))
        with suppress(TimeoutError, WorkspaceBusy):
            await asyncio.wait_for(asyncio.shield(building), PATIENCE)
        return names.is_built

    def _forget(self, names: ContentNames, done: asyncio.Task[None]) -> None:
        del self._building[names]
        if not done.cancelled():
            done.exception()  # whoever waits for it has seen it; nobody may be left


def choose_path(mention: Mention, scope: Scope, snapshot: Snapshot) -> str | None:
    """The node that is meant: of several that the caller may read, the only one on the site at hand."""
    here = scope.node.path if scope.node is not None else ""
    meant = [snapshot.tree.nodes[path] for path in mention.paths]
    if len(meant) > 1:
        meant = [node for node in meant if get_site(node) == here.partition("/")[0]]
    if len(meant) != 1 or f"{here}/".startswith(f"{meant[0].path}/"):
        return None  # nobody knows which one, or the request is about it, or about something within it
    return meant[0].path


def get_site(node: Node) -> str:
    return node.path.partition("/")[0]
