"""What the C library is told, and what the operator's own settings keep from it."""

from types import SimpleNamespace

import pytest

from gateway.allocation import ARENA_MAX, MMAP_THRESHOLD, return_large_blocks
from gateway.settings_loader import sets_arenas


@pytest.mark.parametrize("keeps_arenas", [False, True])
def test_arenas_are_limited_unless_they_are_kept(monkeypatch: pytest.MonkeyPatch, keeps_arenas: bool) -> None:
    told: list[int] = []
    library = SimpleNamespace(mallopt=lambda name, value: told.append(name))
    monkeypatch.setattr("ctypes.CDLL", lambda name: library)
    monkeypatch.setattr("sys.platform", "linux")
    return_large_blocks(keeps_arenas=keeps_arenas)
    assert MMAP_THRESHOLD in told
    assert (ARENA_MAX in told) is not keeps_arenas


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("MALLOC_ARENA_MAX", "8", True),
        ("MALLOC_ARENA_MAX", "", False),
        ("GLIBC_TUNABLES", "glibc.malloc.check=1:glibc.malloc.arena_max=8", True),
        ("GLIBC_TUNABLES", "glibc.malloc.check=1", False),
        ("UNRELATED", "8", False),
    ],
)
def test_the_environment_may_set_the_arenas(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: bool
) -> None:
    for one in ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES"):
        monkeypatch.delenv(one, raising=False)
    monkeypatch.setenv(name, value)
    assert sets_arenas() is expected
