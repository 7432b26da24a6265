"""Retrievers: resources whose text is looked up for each question, at a search endpoint or by a plugin."""

from collections.abc import Sequence

import msgspec

from gateway.domain.resource import Resource

RETRIEVER = "retriever"  # the resource type
MAX_PASSAGES = 20  # that one lookup may bring
MAX_CHARACTERS = 20_000  # of one passage


class SearchTarget(msgspec.Struct, frozen=True):
    """What is asked: a kind of retriever and its checked options as JSON, so that equal ones are the same."""

    kind: str  # "http", or the name of a plugin
    options: str = "{}"


class Retriever(msgspec.Struct, frozen=True):
    """The data of a resource that is looked up."""

    target: SearchTarget
    limit: int = 5  # passages
    characters: int = 2000  # of one passage
    min_score: float | None = None  # on the scale of the endpoint
    seconds: float = 10.0  # that a lookup may take, whoever still waits for it
    cache_seconds: float = 300.0  # that its outcome is kept


class FoundPassage(msgspec.Struct, frozen=True):
    """What a search found, in the words of whoever was asked."""

    text: str
    title: str = ""
    source: str = ""  # where it is from: a file, an address
    score: float | None = None  # on any scale; None: it is not told


class Lookup(msgspec.Struct, frozen=True):
    """The outcome of asking one retriever."""

    passages: Sequence[FoundPassage] = ()  # best first
    failure: str | None = None  # one sentence for a person; None: it answered
    late: bool = False


class ScopeRetrievers(msgspec.Struct, frozen=True):
    """The retrievers of a scope that a request may look up by itself."""

    always: tuple[Resource, ...] = ()  # for every question
    matched: tuple[Resource, ...] = ()  # if their description matches the question


NO_RETRIEVERS = ScopeRetrievers()
