"""What semantic search is given and what it finds."""

import msgspec


class Question(msgspec.Struct, frozen=True):
    """What a request asks: its last user text, and the user's earlier ones, newest first."""

    text: str
    earlier: tuple[str, ...] = ()


class Query(msgspec.Struct, frozen=True):
    """What semantic search looks for: a question split into sentences; none if there is nothing to look for."""

    sentences: tuple[str, ...]


class Pick(msgspec.Struct, frozen=True):
    """A resource that is worth injecting."""

    resource: str  # its id
    score: float  # the calibrated probability that it is relevant
    via: str = "semantic"  # or "expansion"
    why: str = ""
    needs: float = 0.0  # worth its place where more than this share of the budget is left


class SearchResult(msgspec.Struct, frozen=True):
    """The outcome of one search; without picks, `reason` says why nothing could be searched."""

    picks: tuple[Pick, ...] = ()
    # "late": over its time, "unavailable": no embedder, "not_embedded": no vectors yet, "not_searched": nothing to find
    reason: str | None = None
    pending: frozenset[str] = frozenset()  # resources without a vector yet
    scores: tuple[tuple[str, float], ...] = ()  # of what was looked at and not picked, best first


class NodeQuery(msgspec.Struct, frozen=True):
    """What is searched for among nodes: texts, of which one has to match, and types that do by themselves."""

    texts: tuple[str, ...]
    types: tuple[str, ...] = ()
    type_score: float = 0.6  # of a node that only has one of the types
    meant: tuple[str, ...] = ()  # sentences whose meaning counts too; none: only words do
    similar: float | None = None  # the cosine from which a meaning counts; None: as calibrated
    max_embedded: int = 0  # nodes that get vectors because of this; 0: those that there are, are used
    seconds: float = 0.1  # that it waits for the vectors of the question


class NodeMatch(msgspec.Struct):
    """A node that a search found."""

    id: str
    score: float  # 0..1
    by_type: bool = False  # and by none of its words
    by_meaning: bool = False  # more than by its words


class NodeMatches(msgspec.Struct, frozen=True):
    """What a search found among nodes, best first."""

    matches: tuple[NodeMatch, ...] = ()
    total: int = 0  # nodes that were searched and the caller may read
    complete: bool = True  # False: not all of them are indexed yet
    failure: str | None = None  # why meanings did not count although they should: "late", "unavailable"
