"""Watches a policy directory by polling: it works on every file system, through links and across renames."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from gateway.policies.files import files_below

Fingerprint = frozenset[tuple[str, int, int, int, int]]


def fingerprint(directory: Path) -> Fingerprint | None:
    """What tells one state of a directory from another; None while it cannot be read.

    Documents lie inside the policy directory, so all of its files count. Links are followed: swapping what they point
    to (ConfigMaps) changes the inode, as saving by rename does; the change time catches a copy with an old mtime.
    """
    try:
        return frozenset(_mark(path) for path in files_below(directory))
    except OSError:
        return None


async def watch(
    directory: Path,
    reload: Callable[[], Awaitable[object]],
    *,
    since: Fingerprint | None = None,
    interval: float = 0.5,
) -> None:
    """Call `reload` whenever the directory has changed and then stayed the same for one poll; runs until cancelled.

    `since` is the state that was loaded last; give one taken before the load, so that no change falls in between.
    """
    loaded = since if since is not None else await asyncio.to_thread(fingerprint, directory)
    before = loaded
    while True:
        await asyncio.sleep(interval)
        now = await asyncio.to_thread(fingerprint, directory)
        if now == before != loaded:
            loaded = now
            await reload()
        before = now


def _mark(path: Path) -> tuple[str, int, int, int, int]:
    try:
        status = path.stat()
    except OSError:  # a dangling link, or it went while we looked
        return str(path), 0, 0, 0, 0
    return str(path), status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size
