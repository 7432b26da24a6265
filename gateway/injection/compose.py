"""The outgoing body: the client's fields, with only what changes replaced."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from gateway.domain.agent import Placement
from gateway.domain.chat import ChatRequest, OutgoingBody
from gateway.domain.injection import Injection, PlacedTexts
from gateway.domain.scope import Scope
from gateway.domain.template import Part, Placeholder, fill_parts, parse_template
from gateway.domain.upstream import Capabilities
from gateway.errors import MissingVariable
from gateway.injection.anchors import place_anchored
from gateway.injection.place import (
    add_cache_marker,
    encode_text_part,
    escape_json,
    find_last_user_message,
    place,
    replace_developer_role,
)

DEFAULTED = ("temperature", "top_p", "max_tokens")  # of agents and profiles, where the request says nothing

_encode = msgspec.json.Encoder().encode
_object = msgspec.json.Decoder(dict[str, Raw])
_parts = msgspec.json.Decoder(list[Raw])


@dataclass(slots=True)
class PlacementTarget:
    """Where a body goes, and which adaptations the upstream needs."""

    model: str
    placement: Placement = Placement.SYSTEM
    marks_cache: bool = False  # supports Anthropic's cache marker
    developer: bool = True  # supports the developer role
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of the fields that a request may leave out


def compose(
    request: ChatRequest, history: list[Raw], scope: Scope, injection: Injection, target: PlacementTarget
) -> OutgoingBody:
    """Apply defaults, the template and the blocks, then the adaptations for the target."""
    fields: dict[str, Any] = dict(request.fields)
    unchanged = "context" not in fields and history is request.messages
    fields.pop("context", None)
    if target.model != request.model:
        fields["model"] = target.model
        unchanged = False
    if target.defaults and (defaults := find_missing_defaults(request, target.defaults)):
        fields.update(defaults)
        unchanged = False
    messages, texts = apply_template(history, scope, injection)
    if texts:
        messages = place(messages, texts, target.placement)
    if texts.anchored:
        messages = place_anchored(messages, texts, target.placement)
    if target.marks_cache and texts.stable:
        messages = add_cache_marker(messages, texts.stable)
    if not target.developer and b'"developer"' in request.raw:
        messages = replace_developer_role(messages)
    return OutgoingBody(fields, messages, unchanged and messages is request.messages and injection.tools is None)


def choose_target(model: str, scope: Scope, can: Capabilities, default: Placement) -> PlacementTarget:
    """Where the texts go, so that every upstream that may serve the request accepts them."""
    placement = scope.placement or default
    if placement is Placement.TURN and not can.system_anywhere:
        placement = Placement.TURN_USER
    return PlacementTarget(model, placement, can.cache_marker, can.developer, merge_defaults(scope))


def encode_body(request: ChatRequest, outgoing: OutgoingBody) -> bytes:
    """The outgoing body; the client's own bytes if nothing had to change."""
    return request.raw if outgoing.unchanged else _encode({**outgoing.fields, "messages": outgoing.messages})


def merge_defaults(scope: Scope) -> dict[str, Any]:
    """What session, agent and profile send where a request says nothing; the first that says it counts."""
    said = [(name, getattr(defaults, name)) for defaults in reversed(scope.model_defaults) for name in DEFAULTED]
    return {name: value for name, value in said if value is not None}


def find_missing_defaults(request: ChatRequest, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults that the request does not set."""
    missing = {name: value for name, value in defaults.items() if not request.has(name)}
    if "max_tokens" in missing and request.has("max_completion_tokens"):
        del missing["max_tokens"]
    return missing


class TemplatedHistory(NamedTuple):
    """The history with the prompt's template applied, and what is left to be placed."""

    messages: list[Raw]
    texts: PlacedTexts


def apply_template(history: list[Raw], scope: Scope, injection: Injection) -> TemplatedHistory:
    if scope.prompt is None or scope.prompt.template is None:
        return TemplatedHistory(history, injection.texts)
    parts = parse_template(scope.prompt.template)
    question = read_last_user_text(history)
    body = scope.node.body if scope.node is not None else ""
    values = {f"vars.{name}": value for name, value in scope.request.vars.items()}
    values |= {"input": question, "content": body or question}
    texts = injection.texts
    if uses_context(parts):
        values["context"] = "\n\n".join(block for block in (injection.stable, injection.volatile) if block)
        texts = PlacedTexts(instructions=texts.instructions)
    return TemplatedHistory(replace_user_text(history, fill_template(parts, values)), texts)


def uses_context(parts: tuple[Part, ...]) -> bool:
    """Whether the blocks go into the template and nowhere else."""
    return Placeholder("context") in parts


def fill_template(parts: tuple[Part, ...], values: Mapping[str, str]) -> str:
    try:
        return fill_parts(parts, values)
    except KeyError as missing:
        name = str(missing.args[0])
        raise MissingVariable(f"The prompt's template requires {name}.", param=f"context.{name}") from missing


def read_last_user_text(messages: list[Raw]) -> str:
    """The text of the last user message, its text parts joined; "" if there is none."""
    position = find_last_user_message(messages)
    content = None if position is None else _object.decode(messages[position]).get("content")
    if content is None:
        return ""
    match bytes(content)[:1]:
        case b'"':
            return str(msgspec.json.decode(content))
        case b"[":
            return "\n".join(text for part in _parts.decode(content) if (text := read_text(part)) is not None)
    return ""


class _Part(msgspec.Struct):
    type: str | None = None
    text: str | None = None


_part = msgspec.json.Decoder(_Part)


def read_text(part: Raw) -> str | None:
    """The text of a text part, None for any other; whether those are well-formed is left to the upstream."""
    try:
        read = _part.decode(part)
    except msgspec.ValidationError:
        return None
    return read.text if read.type == "text" else None


def replace_user_text(messages: list[Raw], text: str) -> list[Raw]:
    """The messages with `text` instead of the last user text; other parts (images, audio) stay."""
    position = find_last_user_message(messages)
    if position is None:
        return [*messages, Raw(_encode({"role": "user", "content": text}))]
    message = _object.decode(messages[position])
    content = message.get("content")
    if content is not None and bytes(content)[:1] == b"[":
        message["content"] = Raw(_encode(replace_text(content, text)))
    else:
        message["content"] = Raw(_encode(text))
    return [*messages[:position], Raw(_encode(message)), *messages[position + 1 :]]


def replace_text(content: Raw, text: str) -> list[Raw]:
    """The parts with `text` in the place of the first text."""
    parts = _parts.decode(content)
    textual = [read_text(part) is not None for part in parts]
    first = textual.index(True) if True in textual else 0
    kept = [part for part, replaced in zip(parts, textual, strict=True) if not replaced]
    return [*kept[:first], encode_text_part(escape_json(text)), *kept[first:]]
