"""What the translations of requests cannot carry, and what they leave out because it changes no answer."""

from collections.abc import Mapping
from typing import Final

import msgspec


class RequestPath(msgspec.Struct, frozen=True):
    """From which dialect to which, and the fields that have no place there, by their path (`tools[].custom`)."""

    source: str
    target: str
    refused: Mapping[str, str]  # what the target lacks; a field that nobody knows is refused as well
    ignored: Mapping[str, str] = msgspec.field(default_factory=dict)  # why leaving it out changes no answer


NO_SUCH_OPTION: Final = "there is no such option"
NO_STORE: Final = "nothing is stored there"
CACHE_HINT: Final = "a hint for a prompt cache"
SERVER_STATE: Final = "it lives at the provider"
PARSED: Final = "what the client read from the text or the arguments"

CHAT_TO_MESSAGES: Final = RequestPath(
    "chat",
    "messages",
    refused={
        "n": "one answer per request",
        "seed": NO_SUCH_OPTION,
        "logit_bias": NO_SUCH_OPTION,
        "logprobs": NO_SUCH_OPTION,
        "top_logprobs": NO_SUCH_OPTION,
        "frequency_penalty": NO_SUCH_OPTION,
        "presence_penalty": NO_SUCH_OPTION,
        "temperature": "only 0 to 1",
        "verbosity": NO_SUCH_OPTION,
        "prediction": NO_SUCH_OPTION,
        "modalities": "only text",
        "audio": "only text",
        "web_search_options": NO_SUCH_OPTION,
        "functions": "only tools",
        "function_call": "only tools",
        "store": NO_STORE,
        "metadata": "only a user's id",
        "user": "only one id of a user, and `safety_identifier` is another",
        "service_tier": "only auto and default",
        "response_format": "only json_schema",
        "tools[].custom": "only functions",
        "tool_choice": "only auto, none, required or one function",
        "messages[].name": "speakers have no names",
        "messages[].audio": "only text",
        "messages[].content[].input_audio": "no audio",
        "messages[].content[].file.file_id": SERVER_STATE,
        "messages[].content[].image_url.url": "of data URLs only those in base64",
    },
    ignored={
        "stream_options": "the translated stream obeys it",
        "prompt_cache_key": CACHE_HINT,
        "prompt_cache_retention": CACHE_HINT,
        "messages[].reasoning_content": "signed `thinking_blocks` are carried instead",
        "messages[].reasoning": "signed `thinking_blocks` are carried instead",
        "messages[].annotations": "what the model wrote goes back as text",
        "messages[].parsed": PARSED,
        "messages[].tool_calls[].function.parsed_arguments": PARSED,
        "messages[].provider_specific_fields": "notes of litellm about a reply",
        "messages[].content[].image_url.detail": "images have one resolution there",
        "response_format.json_schema.name": "formats have no names",
        "response_format.json_schema.strict": "schemas are always obeyed",
    },
)

MESSAGES_TO_CHAT: Final = RequestPath(
    "messages",
    "chat",
    refused={
        "top_k": NO_SUCH_OPTION,
        "container": SERVER_STATE,
        "thread": SERVER_STATE,
        "mcp_servers": "the provider runs no tools",
        "context_management": "the history stays as it is",
        "inference_geo": NO_SUCH_OPTION,
        "speed": NO_SUCH_OPTION,
        "tools[].type": "only the client's own tools",
        "tools[].input_examples": NO_SUCH_OPTION,
        "tools[].defer_loading": NO_SUCH_OPTION,
        "messages[].content[].type": "only text, images, PDFs, tool calls and results",
        "messages[].content[].source.type": "only base64 and, for images, URLs",
        "messages[].content[].citations": NO_SUCH_OPTION,
        "messages[].content[].context": NO_SUCH_OPTION,
        "messages[].content[].content[].type": "results of tools are text",
    },
    ignored={
        "cache_control": CACHE_HINT,
        "system[].cache_control": CACHE_HINT,
        "messages[].content[].cache_control": CACHE_HINT,
        "tools[].cache_control": CACHE_HINT,
        "tools[].eager_input_streaming": "arguments stream as the model writes them",
        "thinking.display": "the upstream tells its thoughts or does not",
        "messages[].content[].thinking": "thoughts of another model; those of this upstream go back as they came",
        "messages[].content[].data": "thoughts of another model",
    },
)

RESPONSES_TO_CHAT: Final = RequestPath(
    "responses",
    "chat",
    refused={
        "background": NO_STORE,
        "conversation": SERVER_STATE,
        "prompt": SERVER_STATE,
        "previous_response_id": SERVER_STATE,
        "context_management": NO_SUCH_OPTION,
        "truncation": "a history that is too long is an error",
        "include": "only reasoning.encrypted_content and message.output_text.logprobs",
        "tools[].type": "only functions and custom tools",
        "tool_choice": "only auto, none, required, allowed tools, a function or a custom tool",
        "input[].type": "only messages, function and custom calls, their outputs and reasoning",
        "input[].content[].file_id": SERVER_STATE,
        "input[].content[].file_url": NO_SUCH_OPTION,
        "input[].output[].type": "results of tools are text",
    },
    ignored={
        "store": "the gateway keeps responses",
        "metadata": "the gateway keeps it with the response",
        "max_tool_calls": "it limits tools of the provider, of which there are none",
        "input[].content[].annotations": "what the model wrote goes back as text",
        "input[].content[].logprobs": "what the model wrote goes back as text",
        "input[].content[].parsed": PARSED,
        "input[].parsed_arguments": PARSED,
        "input[].summary": "thoughts go back in the form in which they came",
        "reasoning.summary": "the upstream tells its thoughts or does not",
        "reasoning.generate_summary": "the upstream tells its thoughts or does not",
        "stream_options": "the translated stream obeys it",
        "input[].id": "messages have no ids",
        "input[].status": "messages are complete",
        "input[].phase": "messages have no phases",
    },
)

ROUTES: Final = (CHAT_TO_MESSAGES, MESSAGES_TO_CHAT, RESPONSES_TO_CHAT)
