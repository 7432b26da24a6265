"""Errors in OpenAI's format, which chat completions and responses share."""

import orjson

from gateway import sse
from gateway.errors import GatewayError


def render_openai_error(error: GatewayError) -> bytes:
    """`{"error": {"message", "type", "param", "code"}}`."""
    param = None if error.param is None else replace_surrogates(error.param)
    message = replace_surrogates(error.message)
    return orjson.dumps({"error": {"message": message, "type": error.kind, "param": param, "code": error.code}})


def render_openai_error_event(error: GatewayError) -> bytes:
    """The same as one server-sent event; no `[DONE]` may follow it."""
    return sse.encode_event(render_openai_error(error))


def replace_surrogates(text: str) -> str:
    """Lone surrogates from a client's JSON may be quoted in a message, and they have no encoding."""
    return text.encode("utf-8", "replace").decode("utf-8")
