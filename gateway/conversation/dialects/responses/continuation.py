"""`previous_response_id`: continuing a response that was kept."""

from collections.abc import Container, Sequence

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from gateway.conversation.dialects.responses.items import read_item
from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.stored_responses import MAX_CHAIN, StoredResponses
from gateway.domain.chat import ChatRequest, ContinuedResponses
from gateway.domain.upstream import Upstream, intersect_capabilities
from gateway.errors import InvalidRequest, PreviousResponseNotFound, quote

PREVIOUS = "previous_response_id"
OUT_OF_REACH = "Error: this result is not available any more."

_encode = msgspec.json.Encoder().encode


def is_native(upstreams: Sequence[Upstream]) -> bool:
    """Whether every upstream that may serve a request has responses itself."""
    return "responses" in intersect_capabilities(tuple(upstreams)).dialects


def check_account(request: ChatRequest, upstreams: Sequence[Upstream]) -> None:
    """Refuse what an upstream keeps for everybody who shares the gateway's account."""
    if request.has("conversation") and not all(upstream.passes_bearer for upstream in upstreams):
        raise InvalidRequest(
            "Conversations belong to the gateway's own account; send the items or `previous_response_id` instead.",
            param="conversation",
        )


async def resume(
    stored: StoredResponses, owner: ConversationOwner, request: ChatRequest, upstreams: Sequence[Upstream]
) -> ChatRequest:
    """The request with what it continues; raises PreviousResponseNotFound unless that is the caller's own."""
    if request.previous is None:
        return request
    record, native = await stored.find(owner, request.previous), is_native(upstreams)
    if record is None:
        if native and all(upstream.passes_bearer for upstream in upstreams):
            return request  # it is the caller's own account, which knows better
        raise build_unknown(request.previous)
    if record.native:
        if not native:
            raise InvalidRequest(
                "The previous response is kept by another upstream; send its items instead.", param=PREVIOUS
            )
        following = Raw(_encode(record.native))
        continued = ContinuedResponses(told=dict(record.told), known=record.known)
        messages = [*record.pending, *request.messages]
        return replace(request, messages=messages, replaced={PREVIOUS: following}, continued=continued)
    if len(record.earlier) >= MAX_CHAIN:
        raise InvalidRequest(
            f"A conversation of more than {MAX_CHAIN} responses cannot be continued; send its items instead.",
            param=PREVIOUS,
        )
    whole = [*(await stored.find_many(owner, record.earlier)), record]
    if None in whole:
        raise build_unknown(request.previous)
    before: list[Raw] = []
    told: dict[int, tuple[str, ...]] = {}
    size = 0
    for one in whole:
        assert one is not None
        size += one.size
        before += one.input or ()
        told |= {len(before) + position: resources for position, resources in one.told}
        before += one.added
    return replace(
        request,
        messages=[*before, *request.messages],
        replaced={PREVIOUS: None},
        continued=ContinuedResponses((*record.earlier, request.previous), told, size=size),
    )


def screen(request: ChatRequest, reachable: Container[str]) -> ChatRequest:
    """The request without results that tell of resources which the caller cannot reach any more.

    Raises PreviousResponseNotFound if the upstream's own copy of the conversation has such results.
    """
    continued = request.continued
    assert continued is not None
    if not all(one in reachable for one in continued.known):
        raise PreviousResponseNotFound(
            f"The response {quote(request.previous or '')} used context that this request has not got. "
            "Send its items instead.",
            param=PREVIOUS,
        )
    lost = [at for at, resources in continued.told.items() if not all(one in reachable for one in resources)]
    if not lost:
        return request
    messages = list(request.messages)
    for at in lost:
        messages[at] = withhold(messages[at])
    told = {at: resources for at, resources in continued.told.items() if at not in set(lost)}
    return replace(request, messages=messages, continued=replace(continued, told=told))


def withhold(item: Raw) -> Raw:
    """A result that says nothing: without one, its call would be invalid."""
    return Raw(_encode({"type": "function_call_output", "call_id": read_item(item).answers, "output": OUT_OF_REACH}))


def build_unknown(identity: str) -> PreviousResponseNotFound:
    return PreviousResponseNotFound(f"There is no response {quote(identity)} to continue.", param=PREVIOUS)
