"""What collectors found besides resources, in the form in which candidates compete for the budget."""

from gateway.domain.candidate import Candidate, Level
from gateway.domain.collector import FoundItem
from gateway.domain.resource import Mode, Resource, ResourceKind


def make_found_resource(item: FoundItem) -> Resource:
    """The resource of a found item: it is in no policy, and no other request sees it."""
    return Resource(
        item.id,
        "",
        item.type,
        item.title,
        Mode.SEMANTIC,
        ResourceKind.REFERENCE,
        description="",
        languages=(),
        conflict_key=None,
        priority=100,
        required=item.required,
        mandatory=False,
        readers=(),
        examples=(),
        truncate=item.truncate,
        data=item,
        text=item.text,
    )


def make_found_candidate(item: FoundItem, collector: str) -> Candidate:
    """A candidate of one request."""
    return Candidate(make_found_resource(item), Level.CONTENT, "", item.via or collector, item.why, score=item.score)
