"""Which workspaces are to be built: each by itself, one build of a workspace at a time, the newest state last."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable


class WorkspaceBuilds:
    """The builds that run or wait. A workspace that changes during its build is built again."""

    def __init__(self, build: Callable[[str], Awaitable[None]]) -> None:
        self._build = build
        self._outdated: set[str] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def is_idle(self) -> bool:
        return not self._outdated and len(self._tasks) <= 1  # the last one asks while it ends

    def request(self, workspaces: Iterable[str]) -> None:
        """Build these from what is known now; returns at once."""
        for name in workspaces:
            self._outdated.add(name)
            if name not in self._tasks:
                self._tasks[name] = asyncio.create_task(self._build_until_current(name))

    async def wait(self, workspaces: Iterable[str] | None = None, within: float | None = None) -> None:
        """Return once everything that was requested before is built, or after so many seconds; None: all workspaces."""
        names = list(self._tasks) if workspaces is None else list(workspaces)
        tasks = [task for name in names if (task := self._tasks.get(name)) is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=within)

    async def close(self) -> None:
        """End what runs; nothing is requested afterwards."""
        self._outdated.clear()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _build_until_current(self, name: str) -> None:
        try:
            while name in self._outdated:
                self._outdated.discard(name)
                await self._build(name)
        finally:
            del self._tasks[name]
