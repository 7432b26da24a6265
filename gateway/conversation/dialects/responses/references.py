"""`item_reference`: items of earlier responses that a request names by their ids."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from gateway.conversation.dialects.responses.continuation import check_account, is_native
from gateway.conversation.dialects.responses.items import UNREADABLE_ITEM
from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.stored_responses import StoredResponses
from gateway.domain.chat import SPOKEN_STYLE, ChatRequest
from gateway.domain.upstream import Upstream
from gateway.errors import InvalidRequest, quote

REFERENCE = "item_reference"
IMAGE = "image_generation_call"  # without its image, it stands for one that the upstream keeps
MAX_REFERENCES = 1000  # in one request


class _ReferringItem(msgspec.Struct):
    type: str | None = None
    role: str | None = None
    id: str | None = None
    result: Any = None

    @property
    def is_reference(self) -> bool:
        """The type may be left out: an item that has nothing but an id is a reference too."""
        if self.id is None:
            return False
        if self.type == IMAGE:
            return not self.result
        return self.type == REFERENCE or (self.type is None and self.role is None)


_decode = msgspec.json.Decoder(_ReferringItem).decode


def is_reference(item: Any) -> bool:
    """Whether an item that was decoded stands for another one."""
    try:
        return msgspec.convert(item, _ReferringItem).is_reference
    except msgspec.ValidationError:
        return False


def find_references(request: ChatRequest) -> dict[int, str]:
    """The ids of the items that a request refers to, by their positions in the input."""
    if request.style is SPOKEN_STYLE:
        return {}
    found: dict[int, str] = {}
    for position, item in enumerate(request.messages):
        try:
            read = _decode(item)
        except UNREADABLE_ITEM:
            continue  # its shape is the upstream's business
        if read.is_reference and read.id is not None:
            found[position] = read.id
    return found


def stands_alone(request: ChatRequest) -> bool:
    """Whether a request names nothing that was kept, neither an item nor a response or a conversation."""
    return request.style is SPOKEN_STYLE and request.previous is None and "conversation" not in request.fields


async def resolve_references(
    stored: StoredResponses, owner: ConversationOwner, request: ChatRequest, upstreams: Sequence[Upstream]
) -> ChatRequest:
    """The request with the items that it refers to; raises InvalidRequest unless all of them are the caller's own.

    A reference to an item that only the upstream has stays one. An account that is the caller's own knows its items.
    """
    check_account(request, upstreams)
    wanted = find_references(request)
    if not wanted:
        return request
    native = is_native(upstreams)
    if native and all(upstream.passes_bearer for upstream in upstreams):
        return request
    if len(wanted) > MAX_REFERENCES:
        message = f"A request may refer to {MAX_REFERENCES} items at most; send the items themselves."
        raise InvalidRequest(message, param="input")
    found = await stored.find_items(owner, frozenset(wanted.values()))
    messages = list(request.messages)
    for position, identity in wanted.items():
        if identity not in found:
            raise refuse(f"There is no item {quote(identity)}: send the item itself.", position)
        item = found[identity]
        if item is not None:
            messages[position] = item
        elif not native:
            raise refuse(f"Item {quote(identity)} is kept by another upstream: send the item itself.", position)
    if all(item is None for item in found.values()):
        return request
    return replace(request, messages=messages, replaced={})


def refuse(message: str, position: int) -> InvalidRequest:
    return InvalidRequest(message, param=f"input[{position}].id")
