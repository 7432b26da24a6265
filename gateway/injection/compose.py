"""The outgoing body: the client's fields, with only what changes replaced."""

from dataclasses import dataclass
from typing import Any

from msgspec import Raw

from gateway.domain.agent import ModelDefaults, Placement
from gateway.domain.chat import ChatRequest
from gateway.domain.injection import Injection, PlacedTexts
from gateway.domain.scope import Scope
from gateway.domain.template import parse_template
from gateway.injection.adapt import with_cache_marker, without_developer
from gateway.injection.place import place
from gateway.injection.template import filled, last_user_text, replace_user_text, takes_context

SAMPLING = ("temperature", "top_p")


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A body ready to be encoded; `unchanged` means that the client's own bytes may be relayed."""

    fields: dict[str, Any]  # without messages
    messages: list[Raw]
    unchanged: bool


@dataclass(frozen=True, slots=True)
class Target:
    """Where a body goes, and what has to be done differently there."""

    model: str
    placement: Placement = Placement.SYSTEM
    marks_cache: bool = False  # takes Anthropic's cache marker
    developer: bool = True  # knows the developer role


def compose(request: ChatRequest, history: list[Raw], scope: Scope, injection: Injection, target: Target) -> Outgoing:
    """Defaults, the template, the blocks, then what the target wants differently."""
    fields: dict[str, Any] = dict(request.fields)
    unchanged = "context" not in fields and history is request.messages
    fields.pop("context", None)
    del fields["messages"]
    if target.model != request.model:
        fields["model"] = target.model
        unchanged = False
    if defaults := missing_defaults(request, scope):
        fields.update(defaults)
        unchanged = False
    messages, texts = templated(history, scope, injection)
    if texts:
        messages = place(messages, texts, target.placement)
    if target.marks_cache and texts.stable:
        messages = with_cache_marker(messages, texts.stable)
    if not target.developer and b'"developer"' in request.raw:
        messages = without_developer(messages)
    return Outgoing(fields, messages, unchanged and messages is request.messages and injection.tools is None)


def missing_defaults(request: ChatRequest, scope: Scope) -> dict[str, Any]:
    """What agent or profile give and the request leaves open."""
    sources = [source.defaults for source in (scope.agent, scope.profile) if source is not None]
    if not sources:
        return {}
    given: dict[str, Any] = {}
    for name in (*SAMPLING, "max_tokens"):
        value = first_given(sources, name)
        if value is not None and not request.has(name):
            given[name] = value
    if "max_tokens" in given and request.has("max_completion_tokens"):
        del given["max_tokens"]
    return given


def first_given(sources: list[ModelDefaults], name: str) -> Any:
    return next((value for source in sources if (value := getattr(source, name)) is not None), None)


def templated(history: list[Raw], scope: Scope, injection: Injection) -> tuple[list[Raw], PlacedTexts]:
    """The history with the prompt's template applied, and what is left to be placed."""
    if scope.prompt is None or scope.prompt.template is None:
        return history, injection.texts
    parts = parse_template(scope.prompt.template)
    question = last_user_text(history)
    body = scope.node.body if scope.node is not None else ""
    values = {f"vars.{name}": value for name, value in scope.asked.vars.items()}
    values |= {"input": question, "content": body or question}
    texts = injection.texts
    if takes_context(parts):
        values["context"] = "\n\n".join(block for block in (injection.stable, injection.volatile) if block)
        texts = PlacedTexts(instructions=texts.instructions)
    return replace_user_text(history, filled(parts, values)), texts
