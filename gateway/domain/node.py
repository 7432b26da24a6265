"""A node of the content tree."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """One item of the content tree (page, chapter, task …)."""

    id: str  # as given, else its path
    path: str  # keys joined by "/", without a leading slash
    parent: str | None  # path of the parent
    type: str
    title: str
    body: str
    contexts: tuple[str, ...]
    merge: bool  # add the ancestors' contexts instead of replacing them
    readers: tuple[str, ...]  # empty: everyone; else checked on the node and its ancestors
    links: tuple[str, ...] = ()
