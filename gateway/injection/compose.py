"""The outgoing body: the client's fields, with only what changes replaced."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from gateway.domain.agent import Placement
from gateway.domain.chat import ChatRequest, OutgoingBody
from gateway.domain.dialect import RequestDialect
from gateway.domain.injection import Injection, PlacedTexts, PlacementTarget
from gateway.domain.scope import Scope
from gateway.domain.template import Part, Placeholder, fill_parts, parse_template
from gateway.domain.upstream import Capabilities
from gateway.errors import MissingVariable

DEFAULTED = ("temperature", "top_p", "max_tokens")  # of agents and profiles, where the request says nothing


def compose(
    request: ChatRequest,
    history: list[Raw],
    scope: Scope,
    injection: Injection,
    target: PlacementTarget,
    content: str = "",
) -> OutgoingBody:
    """Apply defaults, the template and the blocks, then the adaptations for the target; `content`: the node's text."""
    dialect = request.dialect
    fields: dict[str, Any] = dict(request.fields)
    unchanged = "context" not in fields and history is request.messages
    fields.pop("context", None)
    if request.replaced is not None:
        fields = {name: value for name, value in {**fields, **request.replaced}.items() if value is not None}
        unchanged = False
    if target.model != request.model:
        fields["model"] = target.model
        unchanged = False
    if target.defaults and (defaults := dialect.find_missing_defaults(request, target.defaults)):
        fields.update(defaults)
        unchanged = False
    messages, texts = history, injection.texts
    if scope.prompt is not None:
        templated = apply_template(dialect, history, scope, injection, content)
        messages, texts = templated.messages, templated.texts
    unchanged = unchanged and messages is request.messages and injection.tools is None
    outgoing = OutgoingBody(fields, messages, unchanged)
    if texts:
        outgoing.unchanged = False
        dialect.place(outgoing, texts, target)
    if not target.developer:
        dialect.replace_developer_role(request, outgoing)
    return outgoing


def choose_target(model: str, scope: Scope, can: Capabilities, default: Placement) -> PlacementTarget:
    """Where the texts go, so that every upstream that may serve the request accepts them."""
    placement = scope.placement or default
    if placement is Placement.TURN and not can.system_anywhere:
        placement = Placement.TURN_USER
    return PlacementTarget(model, placement, can.cache_marker, can.developer, merge_defaults(scope))


def encode_body(request: ChatRequest, outgoing: OutgoingBody) -> bytes:
    """The outgoing body; the client's own bytes if nothing had to change."""
    return request.raw if outgoing.unchanged else request.dialect.encode(outgoing)


def merge_defaults(scope: Scope) -> dict[str, Any]:
    """What session, agent and profile send where a request says nothing; the first that says it counts."""
    said = [(name, getattr(defaults, name)) for defaults in reversed(scope.model_defaults) for name in DEFAULTED]
    return {name: value for name, value in said if value is not None}


class TemplatedHistory(msgspec.Struct):
    """The history with the prompt's template applied, and what is left to be placed."""

    messages: list[Raw]
    texts: PlacedTexts


def apply_template(
    dialect: RequestDialect, history: list[Raw], scope: Scope, injection: Injection, content: str = ""
) -> TemplatedHistory:
    if scope.prompt is None or scope.prompt.template is None:
        return TemplatedHistory(history, injection.texts)
    parts = parse_template(scope.prompt.template)
    question = dialect.read_last_user_text(history)
    values = {f"vars.{name}": value for name, value in scope.request.vars.items()}
    values |= {"input": question, "content": content or question}
    texts = injection.texts
    if uses_context(parts):
        values["context"] = "\n\n".join(block for block in (injection.stable, injection.volatile) if block)
        texts = PlacedTexts(instructions=texts.instructions)
    return TemplatedHistory(dialect.replace_user_text(history, fill_template(parts, values)), texts)


def uses_context(parts: tuple[Part, ...]) -> bool:
    """Whether the blocks go into the template and nowhere else."""
    return Placeholder("context") in parts


def fill_template(parts: tuple[Part, ...], values: Mapping[str, str]) -> str:
    try:
        return fill_parts(parts, values)
    except KeyError as missing:
        name = str(missing.args[0])
        raise MissingVariable(f"The prompt's template requires {name}.", param=f"context.{name}") from missing
