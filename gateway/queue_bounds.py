"""How much work is done at once, and how much of it may wait."""

import os

import msgspec

BACKGROUND = "\0background"  # work of nobody: it takes its turn, but no workspace gets less because of it


class QueueBounds(msgspec.Struct, frozen=True):
    """How much is done at once and how much may wait."""

    places: int  # for work of all workspaces at once
    each: int  # of them, for a workspace that is alone: the others are there for whoever comes next
    waiting: int  # work of one workspace; beyond that it is shed
    newest_first: bool = False  # within a workspace, and the oldest is shed: for work that is useless when it is late
    spare: int = 0  # further places, for workspaces that have none or are not heavy: they wait for nobody who is


# For what requests compute: more threads than cores make nothing faster, and the event loop slower.
CORES = max(2, os.cpu_count() or 1)
REQUEST_BOUNDS = QueueBounds(places=CORES + 1, each=CORES, waiting=1024, spare=CORES + 1)
# For all kinds of work together. A workspace with work of every kind would otherwise have a core for each kind. It has
# one place more than cores: what is left of one question, a few milliseconds, does not wait for the texts of another.
CORE_BOUNDS = QueueBounds(places=CORES + 1, each=CORES + 1, waiting=100_000, spare=CORES + 2)
