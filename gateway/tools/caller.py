"""Runs calls of tools: permission, arguments, a fair share of the places, time, and the size of results."""

import asyncio
from importlib import import_module
from typing import Any

import msgspec

from gateway.domain.agent import ToolPermission
from gateway.domain.tool import CallableTool, ToolEndpoint, ToolOutcome
from gateway.errors import WorkspaceBusy
from gateway.fair_queue import FairQueue
from gateway.queue_bounds import QueueBounds
from gateway.tools.connection import McpFailure
from gateway.tools.servers import ToolServers

BOUNDS = QueueBounds(places=64, each=32, waiting=256)
NEEDS_APPROVAL = (
    "this tool needs a person's approval, and nobody can give it here; it was not run. Do not call it again."
)
NOT_ALLOWED = "this tool may not be used here; it was not run. Do not call it again."


class ToolCaller(msgspec.Struct, frozen=True):
    """Calls tools on behalf of workspaces."""

    servers: ToolServers
    queue: FairQueue = msgspec.field(default_factory=lambda: FairQueue(BOUNDS))

    async def call(self, workspace: str, tool: CallableTool, arguments: str, permission: ToolPermission) -> ToolOutcome:
        """What a call came to; whatever goes wrong is a result that the model can read."""
        effective = max(permission, tool.bounds.permission or permission, key=lambda one: one.strictness)
        if effective is not ToolPermission.ALLOW:
            return ToolOutcome(NEEDS_APPROVAL if effective is ToolPermission.APPROVE else NOT_ALLOWED, failed=True)
        try:
            given = msgspec.json.decode(arguments.strip() or "{}", type=dict[str, Any])
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as fault:
            return ToolOutcome(f"the arguments are not a JSON object: {fault}.", failed=True)
        seconds = tool.bounds.seconds
        try:
            async with asyncio.timeout(seconds):
                outcome = await self._run(workspace, tool, given)
        except TimeoutError:
            return ToolOutcome(f"the tool did not answer within {seconds:g} seconds.", failed=True)
        except WorkspaceBusy:
            return ToolOutcome("too many tools are running. Call again later.", failed=True)
        return ToolOutcome(cut_result(outcome.text, tool.bounds.characters), outcome.failed, outcome.unavailable)

    async def _run(self, workspace: str, tool: CallableTool, arguments: dict[str, Any]) -> ToolOutcome:
        await self.queue.acquire(workspace)
        try:
            if isinstance(tool.target, ToolEndpoint):
                # Its HTTP client is imported by whoever calls the first endpoint, and by nobody on the event loop.
                module = await asyncio.to_thread(import_module, "gateway.tools.http_tool")
                outcome: ToolOutcome = await module.call_endpoint(
                    tool.target, arguments, tool.bounds.characters, self.servers.guard
                )
                return outcome
            return await self.servers.call(workspace, tool.target, tool.name, arguments, tool.bounds.seconds)
        except McpFailure as failure:
            return ToolOutcome(f"the tool server failed: {failure}.", failed=True, unavailable=not failure.answered)
        finally:
            self.queue.release(workspace)


def cut_result(text: str, characters: int) -> str:
    """The beginning of a long result, with a line that says so."""
    if len(text) <= characters:
        return text
    return f"{text[:characters]}\n\n[cut: the first {characters} of at least {len(text)} characters]"
