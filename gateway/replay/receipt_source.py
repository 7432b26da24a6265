"""From a receipt back to the request: its scope, its session as it was, and its text or one that the caller sends."""

from collections.abc import Mapping
from typing import Any

import msgspec
import orjson

from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.conversation.dialects.registry import DIALECTS
from gateway.conversation.dialects.responses.references import is_reference
from gateway.conversation.hidden_turns import HiddenTurns
from gateway.domain.principal import ACT_AS_USER, GROUP, KEY, Principal
from gateway.domain.session import Session, SessionKey
from gateway.errors import Conflict, FieldError, InvalidObject, UserNotAllowed
from gateway.redaction import REDACTED
from gateway.replay.resolved_request import RequestSource
from gateway.sessions.sessions import Sessions
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.tools.listing import is_shallow

# Fields of `context` that receipts do not hold: they are in the text of the request, if that was kept.
IN_TEXT = ("refs", "vars", "hints", "items")
MAX_LEVELS = 128  # of a request that can be shown: upstreams may take more
NAMES = ("session", "agent", "prompt", "content", "task", "user")
ASKED = ("profile", "language", "type", "budget", "contexts", "include", "exclude")

ChatBody = dict[str, Any]
ReceiptFields = Mapping[str, Any]  # as `describe_receipt` returns them


class GivenRequest(msgspec.Struct, frozen=True):
    """What a caller sends: a chat request or a part of one, a question, and what it is about."""

    context: Mapping[str, Any] | None = None
    request: Mapping[str, Any] | None = None
    query: str | None = None

    @property
    def has_text(self) -> bool:
        return self.request is not None or self.query is not None

    def build_body(self) -> ChatBody:
        """The chat request; raises InvalidObject if it says twice what it is about."""
        body = dict(self.request or {})
        if self.context is not None:
            if body.get("context") is not None:
                raise InvalidObject(
                    "The context is given twice.", [FieldError("/request/context", "is given in /context already")]
                )
            body["context"] = self.context
        messages = body.setdefault("messages", [])
        if self.query is not None and isinstance(messages, list):
            body["messages"] = [*messages, {"role": "user", "content": self.query}]
        return body


async def build_receipt_source(receipt: ReceiptFields, given: GivenRequest, caller: Principal) -> RequestSource:
    """The request of a receipt, with what the caller says instead.

    Raises Conflict if the receipt does not say what its request was about, and InvalidObject if it holds no text and
    the caller sends none.
    """
    scope = receipt.get("scope")
    if scope is None:
        raise Conflict(
            "This receipt cannot be replayed: the request failed before its scope was known, or an earlier release "
            "wrote it."
        )
    stored = read_stored_body(receipt)
    body = choose_body(receipt, stored, given)
    context = {name: value for name, value in (body.pop("context", None) or {}).items() if name in IN_TEXT}
    context |= describe_context(receipt, scope) | check_overrides(given, caller)
    body["context"] = context
    principal = build_principal(receipt, scope, caller.workspace)
    is_sender = (caller.key or caller.name) == (principal.key or principal.name)
    left_out = () if is_sender else remove_stored(body)
    sessions = Sessions()
    if context.get("session") is not None:
        owner = principal.key or principal.name
        key = SessionKey(caller.workspace, owner, context.get("user") or "", context["session"])
        state = msgspec.convert(scope.get("session") or {}, Session)
        await sessions.change(key, lambda _: state)
    return RequestSource(
        principal,
        orjson.dumps(body),
        sessions=sessions,
        # What was stored between requests is the sender's own, and soon gone.
        hidden_turns=None if is_sender else HiddenTurns(MemoryEphemeralStore()),
        omitted=(*list_omissions(receipt, given), *left_out),
        dialect=CHAT if given.has_text else DIALECTS.get(receipt.get("dialect") or "chat", CHAT),
    )


def read_stored_body(receipt: ReceiptFields) -> ChatBody | None:
    """The request as it was kept; None if it was not, or not as a whole."""
    text = (receipt.get("text") or {}).get("request")
    try:
        body = orjson.loads(text) if text else None
    except orjson.JSONDecodeError:  # it was cut
        return None
    return body if isinstance(body, dict) else None


def remove_stored(body: ChatBody) -> tuple[str, ...]:
    """Remove what names stored responses and their items; returns what that was."""
    omitted = []
    if body.pop("previous_response_id", None) is not None:
        omitted.append("previous_response")
    items = body.get("input")
    if isinstance(items, list):
        body["input"] = [item for item in items if not is_reference(item)]
        if len(body["input"]) < len(items):
            omitted.append("item_references")
    return tuple(omitted)


def choose_body(receipt: ReceiptFields, stored: ChatBody | None, given: GivenRequest) -> ChatBody:
    if given.has_text:
        body = GivenRequest(None, given.request, given.query).build_body()
        if isinstance(body.get("context"), Mapping):
            message = "comes from the receipt; send what should differ as /context"
            wrong = [FieldError("/request/context", message)]
            raise InvalidObject("The receipt says what the request is about.", wrong)
        asked = receipt.get("asked_model")
        return body if "model" in body or asked is None else {**body, "model": asked}
    if stored is None:
        message = "is required: this receipt does not hold the text of its request (see receipts.text)"
        raise InvalidObject("The receipt alone does not say what was asked.", [FieldError("/request", message)])
    if not is_shallow(stored, MAX_LEVELS):
        raise Conflict(f"This receipt cannot be replayed: its request is nested deeper than {MAX_LEVELS} levels.")
    return stored


def describe_context(receipt: ReceiptFields, scope: Mapping[str, Any]) -> dict[str, Any]:
    """The `context` object that makes the scope of a receipt."""
    context = {name: receipt.get(name) for name in NAMES} | {name: scope.get(name) for name in ASKED}
    context["inject"] = "on" if scope.get("inject", True) else "off"
    selection = scope.get("selection") or {}
    tuned = {name: selection[name] for name in ("preset", "sticky") if name in selection} | selection.get("every", {})
    if kinds := dict(selection.get("kinds", ())):
        tuned["kinds"] = kinds
    return {name: value for name, value in context.items() if value is not None} | (
        {"selection": tuned} if tuned else {}
    )


def check_overrides(given: GivenRequest, caller: Principal) -> dict[str, Any]:
    """What the caller says instead of the receipt; its session cannot be another one."""
    said = dict(given.context or {})
    fixed = [name for name in ("session", "pin", "unpin") if name in said]
    wrong = [FieldError(f"/context/{name}", "comes from the receipt") for name in fixed]
    if wrong:
        raise InvalidObject("The session of a receipt cannot be changed.", wrong)
    if said.get("user") is not None and not caller.may_act_for_users:
        raise UserNotAllowed(param="/context/user")
    return said


def build_principal(receipt: ReceiptFields, scope: Mapping[str, Any], workspace: str) -> Principal:
    """Whoever sent the request, as far as it decides over context."""
    readers: list[str] = scope.get("readers", [])
    groups = frozenset(one.removeprefix(GROUP) for one in readers if one.startswith(GROUP) or ":" not in one)
    own = next((one.removeprefix(KEY) for one in readers if one.startswith(KEY)), None)
    return Principal(
        receipt.get("principal") or "",
        workspace,
        agent=receipt.get("agent") if scope.get("bound") else None,
        tools=frozenset(scope["key_tools"]) if "key_tools" in scope else None,
        rights=frozenset({ACT_AS_USER}),
        groups=groups,
        tier=scope.get("tier"),
        key=receipt.get("key"),
        reader=own,
    )


def list_omissions(receipt: ReceiptFields, given: GivenRequest) -> tuple[str, ...]:
    """What of the original the replayed request does not have."""
    text = "" if given.has_text else (receipt.get("text") or {}).get("request", "")
    return ("credentials",) if REDACTED in text else ()
