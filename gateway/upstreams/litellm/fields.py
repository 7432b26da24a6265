"""Which fields of a chat request reach litellm. A body can never choose an address, a key or litellm's own options."""

from typing import Annotated, Any, Final

import msgspec

from gateway.domain.upstream import Capabilities
from gateway.errors import InvalidJson, InvalidRequest
from gateway.settings import UpstreamSettings
from gateway.upstreams.replies import find_param

OptionalObject = dict[str, Any] | None


class TypedObject(msgspec.Struct, frozen=True):
    """An object with a `type`."""

    type: str


class LitellmMessage(msgspec.Struct, frozen=True):
    """One message; fields that are not named here pass unchecked."""

    role: str
    content: str | list[TypedObject] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None


class ChatFields(msgspec.Struct, frozen=True):
    """The fields that are forwarded, validated here because litellm crashes on wrong types instead of refusing them."""

    model: str
    messages: Annotated[list[LitellmMessage], msgspec.Meta(min_length=1)]
    audio: OptionalObject = None
    frequency_penalty: float | None = None
    function_call: str | dict[str, Any] | None = None
    functions: list[dict[str, Any]] | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: bool | None = None
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    modalities: list[str] | None = None
    n: int | None = None
    parallel_tool_calls: bool | None = None
    prediction: OptionalObject = None
    presence_penalty: float | None = None
    prompt_cache_key: str | None = None
    reasoning_effort: str | None = None
    response_format: TypedObject | None = None
    safety_identifier: str | None = None
    seed: int | None = None
    service_tier: str | None = None
    stop: str | list[str] | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: OptionalObject = None
    temperature: float | None = None
    tool_choice: str | dict[str, Any] | None = None
    tools: list[TypedObject] | None = None
    top_logprobs: int | None = None
    top_p: float | None = None
    user: str | None = None
    verbosity: str | None = None
    web_search_options: OptionalObject = None
    # Not OpenAI's, but requested by users of other providers and harmless to pass on.
    cache_control: OptionalObject = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    safety_settings: list[dict[str, Any]] | None = None
    thinking: OptionalObject = None
    top_k: int | None = None


FORWARDED: Final = frozenset(ChatFields.__struct_fields__)


class SelectedFields(msgspec.Struct, frozen=True):
    """The fields of a request that are forwarded, and the names of those that are not."""

    forwarded: dict[str, Any]
    omitted: list[str]


def select_fields(body: bytes, pattern: str) -> SelectedFields:
    """Validate a request and choose what of it is forwarded; raises InvalidRequest."""
    try:
        document = msgspec.json.decode(body)
        chat = msgspec.convert(document, ChatFields)
    except msgspec.ValidationError as fault:
        raise InvalidRequest(str(fault), param=find_param(fault)) from fault
    except (msgspec.DecodeError, UnicodeError, RecursionError) as fault:
        raise InvalidJson(f"The body is not valid JSON: {fault}") from fault
    fields = {name: value for name, value in document.items() if name in FORWARDED and value is not None}
    own = {"model": build_model_name(pattern, chat.model), "stream": chat.stream is True}
    return SelectedFields(fields | own, sorted(document.keys() - FORWARDED))


def build_model_name(pattern: str, requested: str) -> str:
    """The model's name for litellm: the client's name replaces the star."""
    # Some of litellm's providers take a URL for a model and would call it.
    if "://" in requested:
        raise InvalidRequest("A model name cannot be a URL.", param="model")
    return pattern.replace("*", requested)


def read_capabilities(settings: UpstreamSettings) -> Capabilities:
    """What the provider can do: as configured, else as it is known."""
    model = settings.model or ""
    claude = model.startswith("anthropic/") or "claude" in model

    def choose(configured: bool | None, known: bool) -> bool:
        return known if configured is None else configured

    return Capabilities(
        tools=settings.tools,
        # litellm turns later system messages into user text with a preface of its own for these models.
        system_anywhere=choose(settings.system_anywhere, not claude),
        developer=choose(settings.developer, not claude),
        stream_usage=choose(settings.stream_usage, True),
        cache_marker=claude,
    )
