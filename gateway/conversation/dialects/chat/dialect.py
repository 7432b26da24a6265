"""Chat completions as a dialect: each piece of the folder in its place."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from gateway.conversation.call_groups import CallGroup
from gateway.conversation.dialect import Dialect, RelayView, ReplyView, StreamView
from gateway.conversation.dialects.chat import history, placement, tools, transcript, user_text
from gateway.conversation.dialects.chat import request as requests
from gateway.conversation.dialects.chat.relay import ChatRelayView
from gateway.conversation.dialects.chat.replay import ChatReplay
from gateway.conversation.dialects.chat.reply import ChatReplyView
from gateway.conversation.dialects.chat.stream import ChatStreamView
from gateway.conversation.dialects.openai_errors import render_openai_error
from gateway.conversation.history import HistoryMessage
from gateway.conversation.turn import LoopPlan
from gateway.domain.chat import ChatRequest, OutgoingBody
from gateway.domain.dialect import DialectName
from gateway.domain.exchange import Reply
from gateway.domain.injection import PlacedTexts, PlacementTarget
from gateway.domain.upstream import Capabilities
from gateway.errors import GatewayError

_encode = msgspec.json.Encoder().encode


class ChatDialect(Dialect):
    """OpenAI's chat completions."""

    name: DialectName = "chat"
    path = "/v1/chat/completions"
    upstream_path = "/chat/completions"
    keepalive = b": working\n\n"
    shaping_fields = tools.SHAPING

    check_messages = staticmethod(requests.check_messages)
    find_question = staticmethod(requests.find_question)
    read_user_texts = staticmethod(requests.read_user_texts)
    find_missing_defaults = staticmethod(requests.find_missing_defaults)
    may_answer_calls = staticmethod(requests.may_answer_calls)
    wants_json = staticmethod(requests.wants_json)
    read_last_user_text = staticmethod(user_text.read_last_user_text)
    replace_user_text = staticmethod(user_text.replace_user_text)
    read_client_tools = staticmethod(tools.read_client_tools)
    may_register = staticmethod(tools.may_register)
    describe_tool = staticmethod(tools.describe_tool)
    find_called_names = staticmethod(tools.find_called_names)
    encode_turn = staticmethod(transcript.encode_turn)
    write_turn = staticmethod(transcript.write_turn)
    remove_own_calls = staticmethod(transcript.remove_own_calls)
    read_history = staticmethod(history.read_history)
    decode_calls = staticmethod(history.decode_calls)
    read_mark = staticmethod(history.read_mark)
    read_spoken_text = staticmethod(history.read_spoken_text)

    def decode(self, body: bytes) -> ChatRequest:
        return requests.decode_chat(body, self)

    def place(self, outgoing: OutgoingBody, texts: PlacedTexts, target: PlacementTarget) -> None:
        messages = placement.place(outgoing.messages, texts, target.placement)
        if texts.anchored:
            messages = placement.place_anchored(messages, texts, target.placement)
        if target.marks_cache and texts.stable:
            messages = placement.add_cache_marker(outgoing.fields, messages, texts.stable)
        outgoing.messages = messages

    def replace_developer_role(self, request: ChatRequest, outgoing: OutgoingBody) -> None:
        if b'"developer"' in request.raw:
            outgoing.messages, outgoing.unchanged = placement.replace_developer_role(outgoing.messages), False

    def encode(self, outgoing: OutgoingBody) -> bytes:
        return _encode({**outgoing.fields, "messages": outgoing.messages})

    def forces_usage(self, request: ChatRequest, can: Capabilities) -> bool:
        return request.stream and can.stream_usage and not requests.wants_usage(request)

    def write_tools(self, schemas: Sequence[Raw]) -> tuple[Raw, ...]:
        return tuple(schemas)

    def open_reply(self, plan: LoopPlan) -> ReplyView:
        return ChatReplyView(plan)

    def open_stream(self, plan: LoopPlan) -> StreamView:
        return ChatStreamView(plan)

    def open_relay(self, request: ChatRequest, outgoing: OutgoingBody) -> RelayView:
        return ChatRelayView()

    def show_relayed(self, request: ChatRequest, outgoing: OutgoingBody, reply: Reply) -> None:
        pass  # it repeats nothing

    def replay(self, messages: Sequence[HistoryMessage], groups: Sequence[CallGroup]) -> list[Raw]:
        return ChatReplay(messages, groups).build()

    def render_error(self, error: GatewayError) -> bytes:
        return render_openai_error(error)


CHAT = ChatDialect()
