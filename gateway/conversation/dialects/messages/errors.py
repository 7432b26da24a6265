"""Errors of the gateway in Anthropic's format."""

from gateway.conversation.dialects.openai_errors import replace_surrogates
from gateway.domain.messages_error import build_messages_error, build_messages_error_event, find_messages_kind
from gateway.errors import GatewayError


def render_messages_error(error: GatewayError) -> bytes:
    param = None if error.param is None else replace_surrogates(error.param)
    kind = find_messages_kind(error.status)
    return build_messages_error(replace_surrogates(error.message), kind, code=error.code, param=param)


def render_messages_error_event(error: GatewayError) -> bytes:
    """The same as one server-sent event; nothing may follow it."""
    return build_messages_error_event(render_messages_error(error))
