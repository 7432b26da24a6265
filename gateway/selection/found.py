"""What collectors found besides resources, in the form in which candidates compete for the budget."""

from gateway.domain.candidate import Candidate, Level
from gateway.domain.collector import FoundItem
from gateway.domain.resource import Mode, Resource, ResourceKind

_set = object.__setattr__  # as the constructor of every frozen dataclass does


class FoundResource(Resource):
    """The resource of a found item: it is in no policy, and no other request sees it.

    Most of it is the same for all, so that making one takes a sixth of the time; a request makes dozens.
    """

    __slots__ = ()

    context = ""
    mode = Mode.SEMANTIC
    kind = ResourceKind.REFERENCE
    description = ""
    languages = ()
    conflict_key = None
    priority = 100
    mandatory = False
    readers = ()
    examples = ()
    valid_from = None
    valid_until = None
    version = 1

    def __init__(self, item: FoundItem) -> None:
        _set(self, "id", item.id)
        _set(self, "type", item.type)
        _set(self, "name", item.title)
        _set(self, "required", item.required)
        _set(self, "truncate", item.truncate)
        _set(self, "data", item)
        _set(self, "text", item.text)


def make_found_candidate(item: FoundItem, collector: str) -> Candidate:
    """A candidate of one request."""
    return Candidate(FoundResource(item), Level.CONTENT, "", item.via or collector, item.why, score=item.score)
