"""What of a chat request reaches litellm. A body can never choose an address, a key or litellm's own behaviour."""

from typing import Any, Final

import msgspec

from gateway.errors import InvalidJson, InvalidRequest
from gateway.settings import UpstreamSettings
from gateway.upstreams.base import Capabilities

OPENAI: Final = frozenset(
    {
        "audio",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "modalities",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    }
)
# Not OpenAI's, but asked for by users of other providers and harmless to pass on.
PROVIDERS: Final = frozenset({"cache_control", "min_p", "repetition_penalty", "safety_settings", "thinking", "top_k"})
KNOWN: Final = OPENAI | PROVIDERS | {"model", "stream"}


def chat_fields(body: bytes, pattern: str) -> tuple[dict[str, Any], list[str]]:
    """The arguments of a call and the names of the fields that are left out; raises InvalidRequest."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as fault:
        raise InvalidJson(f"The body is not valid JSON: {fault}") from fault
    if not isinstance(document, dict):
        raise InvalidRequest("The body must be a JSON object.")
    _check_messages(document.get("messages"))
    fields = {name: value for name, value in document.items() if name in OPENAI | PROVIDERS and value is not None}
    fields["model"] = model_name(pattern, document.get("model"))
    fields["stream"] = document.get("stream") is True
    return fields, sorted(document.keys() - KNOWN)


def model_name(pattern: str, asked: Any) -> str:
    """The model as litellm knows it: the client's name stands for the star."""
    if not isinstance(asked, str) or not asked:
        raise InvalidRequest("Name a model.", param="model")
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


def _check_messages(messages: Any) -> None:
    """litellm trips over these instead of refusing them."""
    if not isinstance(messages, list) or not messages:
        raise InvalidRequest("`messages` must be a list with at least one message.", param="messages")
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise InvalidRequest("A message must be an object with a role.", param=f"messages[{index}]")
