"""Tries a resource that is not saved: the text that a model would read, and which questions would find it."""

import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from gateway.control.object_bodies import strip_shown_fields
from gateway.domain.agent import SelectionSettings
from gateway.domain.resource import Mode, Resource
from gateway.domain.search import Question, SearchResult
from gateway.domain.snapshot import Snapshot
from gateway.errors import Conflict, Fault, Faults, FieldError, InvalidObject, quote
from gateway.fair_queue import FairQueue, FairThreads
from gateway.policies.repository import PolicyRepository
from gateway.queue_bounds import QueueBounds
from gateway.semantic.service import SemanticService
from gateway.semantic.snapshot_search import SnapshotSearcher
from gateway.validation import format_pointer

UNNAMED: Final = "resource"  # one that has no id yet
SHOWN: Final = 20_000  # characters of a text that are shown
ATTEMPTS: Final = 3  # at a search that was late: what it has embedded is there for the next
OTHERS: Final = 5  # resources that are named beside the tried one
BOUNDS: Final = QueueBounds(places=4, each=2, waiting=32)
UNSEARCHABLE: Final = {
    Mode.ALWAYS: "It is always placed, whatever is asked.",
    Mode.MANUAL: "It is placed only where a session or a request names it.",
}
NOT_NOW: Final = {
    "late": "The search took too long. Try again.",
    "unavailable": "Semantic search is not available. See the gateway's log.",
}
LOADING: Final = "Semantic search is being prepared. Try again in a moment."
SWITCHED_OFF: Final = "Semantic search is switched off."


class ResourceText(msgspec.Struct, frozen=True):
    """What a model would read of a resource."""

    text: str  # its beginning, if it is long
    characters: int
    tokens: int


class ScoredResource(msgspec.Struct, frozen=True):
    """A resource beside the tried one."""

    id: str
    name: str
    score: float


class ResourceFinding(msgspec.Struct, frozen=True):
    """What a question comes to."""

    question: str
    found: bool
    score: float | None = None  # None: it was not searched
    threshold: float | None = None
    why: str = ""
    others: tuple[ScoredResource, ...] = ()


class ResourceTrials(msgspec.Struct, frozen=True):
    """Tries resources among those of a context; nothing is stored."""

    policies: PolicyRepository
    threads: FairThreads
    find_searcher: Callable[[], SemanticService | None]
    count: Callable[[str], int]
    configured: SelectionSettings
    queue: FairQueue = msgspec.field(default_factory=lambda: FairQueue(BOUNDS))

    async def show(self, workspace: str, resource: Any) -> ResourceText:
        """The text of a resource; raises InvalidObject with every fault of it."""
        text = (await self._compile(workspace, resource)).text or ""  # a link may have no copy yet
        tokens = await self.threads.run(workspace, self.count, text)
        return ResourceText(text[:SHOWN], len(text), tokens)

    async def find(
        self, workspace: str, context: str, resource: Any, questions: Sequence[str]
    ) -> list[ResourceFinding]:
        """Which questions would find it among the resources of its context."""
        made = await self._compile(workspace, resource)
        if made.mode in UNSEARCHABLE:
            found, why = made.mode is Mode.ALWAYS, UNSEARCHABLE[made.mode]
            return [ResourceFinding(question, found, why=why) for question in questions]
        searcher = self.find_searcher()
        if searcher is None:
            return [ResourceFinding(question, False, why=SWITCHED_OFF) for question in questions]
        if searcher.engine is None:
            searcher.enable()
            return [ResourceFinding(question, False, why=LOADING) for question in questions]
        candidates = self._gather(workspace, context, made)
        async with self.queue.hold(workspace):
            search = SnapshotSearcher(searcher, candidates)
            return [await self._ask(workspace, question, made.id, search) for question in questions]

    def _gather(self, workspace: str, context: str, made: Resource) -> Snapshot:
        """What the tried resource competes with: all that can be searched in its context."""
        served = self.policies.get_snapshot(workspace)
        known = served.contexts.get(context)
        others = [one for one in (known.resources if known is not None else ()) if one.mode not in UNSEARCHABLE]
        name = f"{context}/{made.id.partition('/')[2]}"
        resources = {one.id: one for one in others if one.id != name} | {made.id: made}
        return replace(served, resources=resources)

    async def _ask(self, workspace: str, question: str, tried: str, search: SnapshotSearcher) -> ResourceFinding:
        from gateway.semantic.search.choice import build_rule
        from gateway.semantic.search.sentences import split_question

        candidates = search.snapshot.resources
        result = SearchResult(reason="late")
        for _ in range(ATTEMPTS):
            if result.reason == "late":
                result = await search.find(
                    workspace, split_question(Question(question)), list(candidates), self.configured
                )
        scores = {pick.resource: pick.score for pick in result.picks} | dict(result.scores)
        threshold = build_rule(candidates[tried].kind, self.configured).min_score
        pick = next((one for one in result.picks if one.resource == tried), None)
        why = pick.why if pick is not None else NOT_NOW.get(result.reason or "", "")
        best = sorted(((name, score) for name, score in scores.items() if name != tried), key=lambda pair: -pair[1])
        others = tuple(ScoredResource(name, candidates[name].name, score) for name, score in best[:OTHERS])
        score = None if result.reason else scores.get(tried, 0.0)
        return ResourceFinding(question, pick is not None, score, threshold, why, others)

    async def _compile(self, workspace: str, sent: Any) -> Resource:
        """The resource as the gateway would serve it, in a context of its own that nobody else sees."""
        data = strip_shown_fields(sent)
        given = sent.get("id") if isinstance(sent, dict) else None
        id, alias = given if isinstance(given, str) and given else UNNAMED, f"trial-{secrets.token_hex(12)}"
        changes = {("contexts", alias): {"resources": {id: data}}}
        try:
            snapshot = await self.policies.try_changes(workspace, changes)
        except Faults as faults:
            raise _describe_faults(faults, f"contexts/{alias}", id) from faults
        found = snapshot.resources.get(f"{alias}/{id}")
        if found is None:
            raise Conflict(f"The resource {quote(id)} is not valid at this time.")
        return found


def _describe_faults(faults: Faults, own: str, id: str) -> InvalidObject | Conflict:
    """The faults of the resource by their places in it; those of other objects are not the caller's."""
    mine = [fault for fault in faults.faults if fault.file == own]
    if not mine:
        return Conflict("The policies of this workspace have faults. Fix them first.")
    return InvalidObject("The resource is invalid.", [_point(fault, id) for fault in mine])


def _point(fault: Fault, id: str) -> FieldError:
    keys = fault.keys[2:] if fault.keys[:2] == ("resources", id) else ("id",)
    return FieldError(format_pointer(("resource", *keys)), fault.message)
