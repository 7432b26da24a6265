"""Whose files, vector stores and containers a request may name where workspaces share an upstream's account."""

from collections.abc import Mapping, Sequence

from gateway.conversation.held_objects import ESCAPED, HeldObject, find_held_objects, may_name_objects
from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.response_keys import MAX_ITEM_ID
from gateway.conversation.stored_responses import StoredResponses
from gateway.domain.chat import PAUSE_BYTES, ChatRequest
from gateway.domain.name_pattern import matches_pattern
from gateway.domain.upstream import Upstream
from gateway.errors import InvalidJson, ObjectNotAllowed, quote
from gateway.fair_queue import FairThreads
from gateway.settings import UpstreamSettings

HELD_PATHS = ("/v1/audio/voice",)  # voices that were made for an account, and the consents of those who speak


class ObjectGuard:
    """Refuses objects of an account that workspaces share, unless they are known to be the caller's."""

    def __init__(
        self,
        rules: Mapping[str, UpstreamSettings],
        stored: StoredResponses | None = None,
        threads: FairThreads | None = None,
    ) -> None:
        self._rules, self._stored, self._threads = rules, stored, threads
        self._several = False  # workspaces have keys
        self._find_guarded()

    def note_workspaces(self, number: int) -> None:
        """As many workspaces have keys from now on."""
        self._several = number > 1
        self._find_guarded()

    def _find_guarded(self) -> None:
        self._guarded = {name: rule for name, rule in self._rules.items() if self._is_guarded(rule)}
        self.active = bool(self._guarded)  # read with every request

    def _is_guarded(self, rule: UpstreamSettings) -> bool:
        if rule.pass_bearer or rule.kind == "demo":
            return False  # the account is the client's own; there is none
        return rule.shared_objects == "refuse" or (rule.shared_objects == "auto" and self._several)

    async def check(self, owner: ConversationOwner, request: ChatRequest, upstreams: Sequence[Upstream]) -> None:
        """Raise ObjectNotAllowed if the request names what may be another workspace's."""
        if self._select(upstreams) and may_name_objects(request):
            refused = await self._find_refused(owner.workspace, request.raw, upstreams)
            if refused and self._stored is not None:
                refused = await drop_own_containers(self._stored, owner, refused)
            self._refuse(refused, upstreams)

    async def check_body(self, workspace: str, body: bytes, upstreams: Sequence[Upstream]) -> None:
        """The same for a body that is passed through; one that is no JSON must not name any object."""
        if not self._select(upstreams):
            return
        is_form = body[:64].lstrip().startswith(b"--")
        if not is_form and b"\0" in body[:4]:
            raise InvalidJson("The body must be UTF-8.")  # in another encoding no name would be found
        if b"file_id" not in body and b'"voice"' not in body and ESCAPED.search(body) is None:
            return
        if not is_form:
            self._refuse(await self._find_refused(workspace, body, upstreams), upstreams)
        elif b"[file_id]" in body or b'name="file_id' in body:
            self._refuse([HeldObject("file_id", "")], upstreams)

    def check_path(self, path: str, upstreams: Sequence[Upstream]) -> None:
        """Raise ObjectNotAllowed for a path that lists or makes objects of an account."""
        if path.startswith(HELD_PATHS) and self._select(upstreams):
            self._refuse([HeldObject("", path)], upstreams)

    def _select(self, upstreams: Sequence[Upstream]) -> list[UpstreamSettings]:
        return [self._guarded[one.name] for one in upstreams if one.name in self._guarded]

    async def _find_refused(self, workspace: str, body: bytes, upstreams: Sequence[Upstream]) -> list[HeldObject]:
        if len(body) > PAUSE_BYTES and self._threads is not None:
            found = await self._threads.run(workspace, find_held_objects, body)
        else:
            found = find_held_objects(body)
        rules = self._select(upstreams)
        return [one for one in found if not all(is_listed(rule, workspace, one.identity) for rule in rules)]

    def _refuse(self, refused: Sequence[HeldObject], upstreams: Sequence[Upstream]) -> None:
        if refused:
            one = refused[0]
            name = next(upstream.name for upstream in upstreams if upstream.name in self._guarded)
            raise ObjectNotAllowed(
                f"{quote(one.identity)} belongs to an account that several workspaces share, and is not known to be "
                f"yours. Send the content itself, or have it listed in `upstreams.{name}.objects`.",
                param=one.field or None,
            )


def is_listed(rule: UpstreamSettings, workspace: str, identity: str) -> bool:
    """Whether the operator lets a workspace use an object."""
    if len(identity) > MAX_ITEM_ID:
        return False
    return any(matches_pattern(pattern, identity) for pattern in rule.objects.get(workspace, ()))


async def drop_own_containers(
    stored: StoredResponses, owner: ConversationOwner, found: Sequence[HeldObject]
) -> list[HeldObject]:
    """Without containers that responses of the caller used."""
    ids = frozenset(one.identity for one in found if one.is_container and len(one.identity) <= MAX_ITEM_ID)
    own = await stored.find_items(owner, ids) if ids else {}
    return [one for one in found if not (one.is_container and one.identity in own)]
