"""Watches a policy directory by polling, which works on every file system, through links and across renames."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from gateway.policies.files import list_files

POLL_SECONDS = 0.5

Fingerprint = frozenset[tuple[str, int, int, int, int]]  # path, inode, modification time, change time, size


def compute_fingerprint(directory: Path) -> Fingerprint | None:
    """Identifies the state of a directory; None while it cannot be read.

    Documents lie inside the policy directory, so all of its files count. Links are followed: swapping what they point
    to (ConfigMaps) changes the inode, as does saving by rename; the change time catches a copy with an old mtime.
    """
    try:
        return frozenset(_describe(path) for path in list_files(directory))
    except OSError:
        return None


async def watch(
    directory: Path,
    reload: Callable[[], Awaitable[object]],
    *,
    since: Fingerprint | None = None,
    interval: float = POLL_SECONDS,
    fingerprint: Callable[[Path], Fingerprint | None] = compute_fingerprint,
) -> None:
    """Call `reload` whenever the directory has changed and then stayed the same for one poll; runs until cancelled.

    `since` is the state that was loaded last; take it before loading, so that no change is missed.
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


def _describe(path: Path) -> tuple[str, int, int, int, int]:
    try:
        status = path.stat()
    except OSError:  # a dangling link, or it was just deleted
        return str(path), 0, 0, 0, 0
    return str(path), status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size
