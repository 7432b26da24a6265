"""A node of the content tree."""

import msgspec


class Node(msgspec.Struct, frozen=True):
    """One item of the content tree (page, chapter, task …). Its text, properties and links are its `NodeContent`."""

    id: str  # as given, else its path
    path: str  # keys joined by "/", without a leading slash
    parent: str | None  # path of the parent
    type: str
    title: str
    contexts: tuple[str, ...] = ()
    merge: bool = False  # add the ancestors' contexts instead of replacing them
    readers: tuple[str, ...] = ()  # empty: everyone; else checked on the node and its ancestors
    order: int = 0  # among its siblings; of those with the same number, the one that was defined first comes first
