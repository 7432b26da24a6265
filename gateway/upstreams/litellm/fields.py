"""What of a chat request reaches litellm. A body can never choose an address, a key or litellm's own behaviour."""

from typing import Annotated, Any, Final

import msgspec

from gateway.domain.upstream import Capabilities
from gateway.errors import InvalidJson, InvalidRequest
from gateway.settings import UpstreamSettings
from gateway.upstreams.replies import param_of

Object = dict[str, Any] | None


class Typed(msgspec.Struct, frozen=True):
    """An object that says what it is."""

    type: str


class LitellmMessage(msgspec.Struct, frozen=True):
    """One message; its fields that are not named here pass as they are."""

    role: str
    content: str | list[Typed] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None


class ChatFields(msgspec.Struct, frozen=True):
    """The fields that are forwarded, checked here because litellm trips over wrong types instead of refusing them."""

    model: str
    messages: Annotated[list[LitellmMessage], msgspec.Meta(min_length=1)]
    audio: Object = None
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
    prediction: Object = None
    presence_penalty: float | None = None
    prompt_cache_key: str | None = None
    reasoning_effort: str | None = None
    response_format: Typed | None = None
    safety_identifier: str | None = None
    seed: int | None = None
    service_tier: str | None = None
    stop: str | list[str] | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: Object = None
    temperature: float | None = None
    tool_choice: str | dict[str, Any] | None = None
    tools: list[Typed] | None = None
    top_logprobs: int | None = None
    top_p: float | None = None
    user: str | None = None
    verbosity: str | None = None
    web_search_options: Object = None
    # Not OpenAI's, but asked for by users of other providers and harmless to pass on.
    cache_control: Object = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    safety_settings: list[dict[str, Any]] | None = None
    thinking: Object = None
    top_k: int | None = None


FORWARDED: Final = frozenset(ChatFields.__struct_fields__)


def chat_fields(body: bytes, pattern: str) -> tuple[dict[str, Any], list[str]]:
    """The arguments of a call and the names of the fields that are left out; raises InvalidRequest."""
    try:
        document = msgspec.json.decode(body)
        chat = msgspec.convert(document, ChatFields)
    except msgspec.ValidationError as fault:
        raise InvalidRequest(str(fault), param=param_of(fault)) from fault
    except (msgspec.DecodeError, UnicodeError, RecursionError) as fault:
        raise InvalidJson(f"The body is not valid JSON: {fault}") from fault
    fields = {name: value for name, value in document.items() if name in FORWARDED and value is not None}
    own = {"model": model_name(pattern, chat.model), "stream": chat.stream is True}
    return fields | own, sorted(document.keys() - FORWARDED)


def model_name(pattern: str, asked: str) -> str:
    """The model as litellm knows it: the client's name stands for the star."""
    # Some of litellm's providers take a URL for a model and would call it.
    if "://" in asked:
        raise InvalidRequest("A model's name cannot be a URL.", param="model")
    return pattern.replace("*", asked)


def capabilities(settings: UpstreamSettings) -> Capabilities:
    """What the provider can do: the operator's word, else what is known of it."""
    model = settings.model or ""
    claude = model.startswith("anthropic/") or "claude" in model

    def either(said: bool | None, known: bool) -> bool:
        return known if said is None else said

    return Capabilities(
        tools=settings.tools,
        # litellm turns later system messages into user text with a preface of its own for these models.
        system_anywhere=either(settings.system_anywhere, not claude),
        developer=either(settings.developer, not claude),
        stream_usage=either(settings.stream_usage, True),
        cache_marker=claude,
    )
