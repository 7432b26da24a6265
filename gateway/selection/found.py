"""What collectors found besides resources, in the form in which candidates compete for the budget."""

from gateway.domain.candidate import Candidate, Level
from gateway.domain.collector import FoundItem
from gateway.domain.resource import Mode, Resource, ResourceKind


def make_found_candidate(item: FoundItem, collector: str) -> Candidate:
    """A candidate of one request: its resource is in no policy, and no other request sees it."""
    resource = Resource(
        id=item.id,
        context="",
        type=item.type,
        name=item.title,
        mode=Mode.SEMANTIC,
        kind=ResourceKind.REFERENCE,
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
    return Candidate(resource, Level.CONTENT, "", item.via or collector, item.why, score=item.score)
