"""Anthropic's Messages as a dialect: each piece of the folder in its place."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from gateway.conversation.call_groups import CallGroup
from gateway.conversation.dialect import Dialect, RelayView, ReplyView, StreamView
from gateway.conversation.dialects.chat import request as chat_requests
from gateway.conversation.dialects.messages import history, placement, tools, transcript
from gateway.conversation.dialects.messages import request as requests
from gateway.conversation.dialects.messages.errors import render_messages_error
from gateway.conversation.dialects.messages.relay import MessagesRelayView
from gateway.conversation.dialects.messages.replay import MessagesReplay
from gateway.conversation.dialects.messages.reply import MessagesReplyView
from gateway.conversation.dialects.messages.stream import MessagesStreamView
from gateway.conversation.dialects.raw_body import TOOL_FIELDS
from gateway.conversation.history import HistoryMessage
from gateway.conversation.turn import LoopPlan
from gateway.domain.chat import ChatRequest, OutgoingBody
from gateway.domain.dialect import DialectName
from gateway.domain.exchange import Reply
from gateway.domain.upstream import Capabilities

_encode = msgspec.json.Encoder().encode


class MessagesDialect(Dialect):
    """Anthropic's Messages."""

    name: DialectName = "messages"
    path = "/v1/messages"
    upstream_path = "/messages"
    keepalive = b'event: ping\ndata: {"type": "ping"}\n\n'
    shaping_fields = TOOL_FIELDS

    check_messages = staticmethod(requests.check_messages)
    # The user's texts stand where chat has them; results of tools are blocks of another type.
    find_question = staticmethod(chat_requests.find_question)
    read_user_texts = staticmethod(chat_requests.read_user_texts)
    find_missing_defaults = staticmethod(requests.find_missing_defaults)
    may_answer_calls = staticmethod(requests.may_answer_calls)
    wants_json = staticmethod(requests.wants_json)
    read_last_user_text = staticmethod(placement.read_last_user_text)
    replace_user_text = staticmethod(placement.replace_user_text)
    place = staticmethod(placement.place)
    read_client_tools = staticmethod(tools.read_client_tools)
    may_register = staticmethod(tools.may_register)
    describe_tool = staticmethod(tools.describe_tool)
    find_called_names = staticmethod(tools.find_called_names)
    write_tools = staticmethod(tools.write_tools)
    encode_turn = staticmethod(transcript.encode_turn)
    write_turn = staticmethod(transcript.write_turn)
    remove_own_calls = staticmethod(transcript.remove_own_calls)
    read_history = staticmethod(history.read_history)
    decode_calls = staticmethod(history.decode_calls)
    read_mark = staticmethod(history.read_mark)
    read_spoken_text = staticmethod(history.read_spoken_text)
    render_error = staticmethod(render_messages_error)

    def decode(self, body: bytes) -> ChatRequest:
        return requests.decode_messages(body, self)

    def replace_developer_role(self, request: ChatRequest, outgoing: OutgoingBody) -> None:
        """Messages have no developer."""

    def encode(self, outgoing: OutgoingBody) -> bytes:
        return _encode({**outgoing.fields, "messages": outgoing.messages})

    def forces_usage(self, request: ChatRequest, can: Capabilities) -> bool:
        return False  # every stream reports it

    def open_reply(self, plan: LoopPlan) -> ReplyView:
        return MessagesReplyView(plan)

    def open_stream(self, plan: LoopPlan) -> StreamView:
        return MessagesStreamView(plan)

    def open_relay(self, request: ChatRequest, outgoing: OutgoingBody) -> RelayView:
        return MessagesRelayView()

    def show_relayed(self, request: ChatRequest, outgoing: OutgoingBody, reply: Reply) -> None:
        pass  # it repeats nothing

    def replay(self, messages: Sequence[HistoryMessage], groups: Sequence[CallGroup]) -> list[Raw]:
        return MessagesReplay(messages, groups).build()


MESSAGES = MessagesDialect()
