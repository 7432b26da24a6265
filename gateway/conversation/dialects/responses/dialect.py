"""Responses as a dialect: each piece of the folder in its place."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from gateway.conversation.call_groups import CallGroup
from gateway.conversation.dialect import Dialect, RelayView, ReplyView, StreamView
from gateway.conversation.dialects.openai_errors import render_openai_error
from gateway.conversation.dialects.responses import history, items, placement, tools, transcript
from gateway.conversation.dialects.responses import request as requests
from gateway.conversation.dialects.responses.echoed import EchoedFields
from gateway.conversation.dialects.responses.ended import show_whole
from gateway.conversation.dialects.responses.relay import ResponsesRelayView
from gateway.conversation.dialects.responses.reply import ResponsesReplyView
from gateway.conversation.dialects.responses.stream import ResponsesStreamView
from gateway.conversation.history import HistoryMessage
from gateway.conversation.turn import LoopPlan
from gateway.domain.chat import ChatRequest, OutgoingBody
from gateway.domain.dialect import DialectName
from gateway.domain.exchange import Reply
from gateway.domain.injection import PlacedTexts, PlacementTarget
from gateway.domain.upstream import Capabilities
from gateway.errors import GatewayError

_encode = msgspec.json.Encoder().encode


class ResponsesDialect(Dialect):
    """OpenAI's responses."""

    name: DialectName = "responses"
    path = "/v1/responses"
    upstream_path = "/responses"
    keepalive = b": working\n\n"
    keeps_replies = True
    shaping_fields = tools.SHAPING

    check_messages = staticmethod(requests.check_messages)
    find_question = staticmethod(requests.find_question)
    read_user_texts = staticmethod(requests.read_user_texts)
    find_missing_defaults = staticmethod(requests.find_missing_defaults)
    may_answer_calls = staticmethod(requests.may_answer_calls)
    wants_json = staticmethod(requests.wants_json)
    read_last_user_text = staticmethod(requests.read_last_user_text)
    replace_user_text = staticmethod(placement.replace_user_text)
    read_client_tools = staticmethod(tools.read_client_tools)
    may_register = staticmethod(tools.may_register)
    describe_tool = staticmethod(tools.describe_tool)
    find_called_names = staticmethod(tools.find_called_names)
    write_tools = staticmethod(tools.write_tools)
    encode_turn = staticmethod(transcript.encode_turn)
    write_turn = staticmethod(transcript.write_turn)
    remove_own_calls = staticmethod(transcript.remove_own_calls)
    read_history = staticmethod(history.read_history)
    decode_calls = staticmethod(items.decode_calls)
    read_mark = staticmethod(items.read_mark)
    read_spoken_text = staticmethod(items.read_spoken_text)

    def decode(self, body: bytes) -> ChatRequest:
        return requests.decode_responses(body, self)

    def place(self, outgoing: OutgoingBody, texts: PlacedTexts, target: PlacementTarget) -> None:
        placement.place(outgoing, texts, target.placement)

    def replace_developer_role(self, request: ChatRequest, outgoing: OutgoingBody) -> None:
        if b'"developer"' in request.raw:
            outgoing.messages, outgoing.unchanged = placement.replace_developer_role(outgoing.messages), False

    def encode(self, outgoing: OutgoingBody) -> bytes:
        return _encode({**outgoing.fields, "input": outgoing.messages})

    def forces_usage(self, request: ChatRequest, can: Capabilities) -> bool:
        return False  # every response tells it

    def open_reply(self, plan: LoopPlan) -> ReplyView:
        return ResponsesReplyView(plan)

    def open_stream(self, plan: LoopPlan) -> StreamView:
        return ResponsesStreamView(plan)

    def open_relay(self, request: ChatRequest, outgoing: OutgoingBody) -> RelayView:
        return ResponsesRelayView(None if outgoing.unchanged else EchoedFields(request.fields))

    def show_relayed(self, request: ChatRequest, outgoing: OutgoingBody, reply: Reply) -> None:
        if not outgoing.unchanged:
            show_whole(reply, EchoedFields(request.fields))

    def replay(self, messages: Sequence[HistoryMessage], groups: Sequence[CallGroup]) -> list[Raw]:
        return history.replay_turns(messages, groups)

    def render_error(self, error: GatewayError) -> bytes:
        return render_openai_error(error)


RESPONSES = ResponsesDialect()
