import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gateway.policies.watch import compute_fingerprint, watch

INTERVAL = 0.02


class Reloads:
    """Counts reloads and lets a test wait for the next one."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = asyncio.Event()

    async def __call__(self) -> None:
        self.count += 1
        self._changed.set()

    async def next(self) -> None:
        await asyncio.wait_for(self._changed.wait(), 5)
        self._changed.clear()


@contextlib.asynccontextmanager
async def watching(directory: Path) -> AsyncIterator[Reloads]:
    reloads = Reloads()
    task = asyncio.create_task(watch(directory, reloads, since=compute_fingerprint(directory), interval=INTERVAL))
    try:
        yield reloads
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_nothing_happens_while_nothing_changes(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("x")
    async with watching(tmp_path) as reloads:
        await asyncio.sleep(INTERVAL * 8)
        assert reloads.count == 0


async def test_an_edit_a_new_file_a_document_and_a_deletion_each_reload_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("x")
    (tmp_path / "docs").mkdir()
    changes: list[Callable[[], object]] = [
        lambda: (tmp_path / "a.yaml").write_text("y"),
        lambda: (tmp_path / "b.yaml").write_text("z"),
        lambda: (tmp_path / "docs" / "guide.md").write_text("text"),
        lambda: (tmp_path / "b.yaml").unlink(),
    ]
    async with watching(tmp_path) as reloads:
        for expected, change in enumerate(changes, start=1):
            change()
            await reloads.next()
            assert reloads.count == expected
        await asyncio.sleep(INTERVAL * 4)
        assert reloads.count == len(changes)


async def test_saving_by_rename_is_seen_though_size_and_time_are_the_same(tmp_path: Path) -> None:
    old, new = tmp_path / "a.yaml", tmp_path / ".a.yaml.new"
    old.write_text("one")
    new.write_text("two")
    os.utime(new, ns=(old.stat().st_mtime_ns, old.stat().st_mtime_ns))
    async with watching(tmp_path) as reloads:
        new.replace(old)
        await reloads.next()


async def test_a_configmap_swap_is_seen(tmp_path: Path) -> None:
    for version in ("..v1", "..v2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "a.yaml").write_text("same size")
        os.utime(tmp_path / version / "a.yaml", (0, 0))
    (tmp_path / "..data").symlink_to("..v1")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    async with watching(tmp_path) as reloads:
        (tmp_path / "..tmp").symlink_to("..v2")
        (tmp_path / "..tmp").rename(tmp_path / "..data")
        await reloads.next()
        assert reloads.count == 1


async def test_a_file_that_is_still_being_written_is_left_to_settle(tmp_path: Path) -> None:
    sizes = [1, 2, 3, 4, 4]
    polls: list[int] = []

    def growing(_directory: Path) -> frozenset[tuple[str, int, int, int, int]]:
        polls.append(sizes[min(len(polls), len(sizes) - 1)])
        return frozenset({("a.yaml", 1, 1, 1, polls[-1])})

    seen: list[list[int]] = []

    async def reload() -> None:
        seen.append(list(polls))

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(watch(tmp_path, reload, since=frozenset(), interval=0.001, fingerprint=growing), 0.2)
    assert seen == [sizes]


async def test_a_change_between_the_load_and_the_first_poll_is_not_lost(tmp_path: Path) -> None:
    before = compute_fingerprint(tmp_path)
    (tmp_path / "a.yaml").write_text("x")
    reloads = Reloads()
    task = asyncio.create_task(watch(tmp_path, reloads, since=before, interval=INTERVAL))
    await reloads.next()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_directory_that_goes_and_comes_back_is_watched_on(tmp_path: Path) -> None:
    directory = tmp_path / "policies"
    directory.mkdir()
    (directory / "a.yaml").write_text("x")
    async with watching(directory) as reloads:
        directory.rename(tmp_path / "away")
        await reloads.next()
        (tmp_path / "away").rename(directory)
        await reloads.next()
        assert reloads.count == 2


async def test_it_stops_at_once_when_cancelled(tmp_path: Path) -> None:
    task = asyncio.create_task(watch(tmp_path, Reloads(), interval=60))
    await asyncio.sleep(0.05)
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < 5  # of the 60 of its interval


def test_a_dangling_link_is_part_of_the_state(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to("missing")
    before = compute_fingerprint(tmp_path)
    (tmp_path / "missing").write_text("x")
    assert None is not before != compute_fingerprint(tmp_path)
