"""Calls in a dialect that an upstream does not speak: translated on their way, and their replies on the way back."""

import asyncio
import re
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from gateway.domain.dialect import CALL_PATHS, DialectName
from gateway.domain.messages_error import build_messages_error
from gateway.domain.upstream import Capabilities, TakeBytes, Upstream, UpstreamReply, UpstreamRequest, is_event_stream
from gateway.errors import InvalidRequest
from gateway.upstreams.replies import MemoryReply, build_error_reply
from gateway.upstreams.translation.chat_to_messages_reply import build_message_reply
from gateway.upstreams.translation.chat_to_messages_request import build_messages_request
from gateway.upstreams.translation.chat_to_messages_stream import ChatToMessagesStream
from gateway.upstreams.translation.chat_to_responses import ChatToResponsesStream, ResponseHead, build_response
from gateway.upstreams.translation.errors import to_chat_error, to_messages_error
from gateway.upstreams.translation.messages_to_chat_reply import build_completion
from gateway.upstreams.translation.messages_to_chat_request import ChatAbilities, build_chat_request
from gateway.upstreams.translation.messages_to_chat_stream import MessagesToChatStream, StreamTranslator
from gateway.upstreams.translation.responses_to_chat_request import build_chat_request_of_responses

R = TypeVar("R")

LARGE_BODY: Final = 256 * 1024  # bytes from which a body is translated off the event loop
REQUEST_IDS: Final[dict[DialectName, str]] = {"chat": "x-request-id", "responses": "x-request-id"}
# The fields of a Responses request that become those of a chat request, by how the names of the latter begin.
RESPONSES_FIELDS: Final = {
    "messages": "input",
    "response_format": "text.format",
    "verbosity": "text.verbosity",
    "reasoning_effort": "reasoning.effort",
    "logprobs": "include",
}
CUSTOM_TOOL: Final = re.compile(r"^(tools\[\d+\])\.custom$")
MESSAGES_REQUEST_ID: Final = "request-id"


class CallTranslation(msgspec.Struct, frozen=True):
    """One call: what goes upstream, and how its reply comes back."""

    body: bytes
    target: DialectName
    translate_reply: Callable[[bytes], bytes]
    translate_error: Callable[[bytes, int], bytes]
    open_stream: Callable[[], StreamTranslator]


async def send_translated(upstream: Upstream, request: UpstreamRequest) -> UpstreamReply:
    """The reply in the client's dialect; a request that cannot be carried is answered with an error."""
    try:
        steps = await run_beside(request.body, lambda: translate_in_steps(request, upstream.capabilities))
    except InvalidRequest as fault:
        return build_refusal(request.dialect, fault)
    reply = await upstream.send(follow_step(request, steps[-1]))
    for number in reversed(range(len(steps))):
        reply = TranslatedReply(reply, steps[number], steps[number - 1].target if number else request.dialect)
    return reply


def translate_body(request: UpstreamRequest, can: Capabilities) -> bytes:
    """The body of a call as an upstream gets it; raises InvalidRequest if it cannot be carried."""
    steps = translate_in_steps(request, can)
    return steps[-1].body if steps else request.body


def translate_in_steps(request: UpstreamRequest, can: Capabilities) -> list[CallTranslation]:
    """The translations of one call, each of what the one before it made: Responses reach Anthropic through chat."""
    steps: list[CallTranslation] = []
    call = request
    while call.dialect not in can.dialects:
        try:
            steps.append(translate_call(call, can))
        except InvalidRequest as fault:
            if not steps:
                raise
            raise name_fields_of_responses(fault) from fault
        call = follow_step(call, steps[-1])
    return steps


def follow_step(request: UpstreamRequest, step: CallTranslation) -> UpstreamRequest:
    """The call that a translation made."""
    return msgspec.structs.replace(request, path=CALL_PATHS[step.target], body=step.body, dialect=step.target)


def name_fields_of_responses(fault: InvalidRequest) -> InvalidRequest:
    """A fault that the second step found in a chat request, with the field that the client sent."""
    told = fault.param or ""
    field = next((field for start, field in RESPONSES_FIELDS.items() if told.startswith(start)), told)
    field = CUSTOM_TOOL.sub(r"\1.type", field)
    return InvalidRequest(fault.message.replace(f"`{told}`", f"`{field}`"), param=field or None)


def build_refusal(dialect: DialectName, fault: InvalidRequest) -> UpstreamReply:
    if dialect == "messages":
        error = build_messages_error(fault.message, fault.kind, code=fault.code, param=fault.param)
        return MemoryReply(fault.status, [error])
    return build_error_reply(fault.status, fault.message, code=fault.code, param=fault.param)


def translate_call(request: UpstreamRequest, can: Capabilities) -> CallTranslation:
    """The translation of one call; raises InvalidRequest for what the upstream's dialect has no place for."""
    chat = ChatAbilities(can.stream_usage, can.cache_marker)
    body, created = request.body, int(time.time())
    match request.dialect:
        case "messages":
            return CallTranslation(
                build_chat_request(body, chat), "chat", build_message_reply, to_messages_error, ChatToMessagesStream
            )
        case "responses":
            head = ResponseHead(body, uuid.uuid4().hex, created)
            return CallTranslation(
                build_chat_request_of_responses(body, chat),
                "chat",
                lambda reply: build_response(reply, head),
                lambda error, status: error,
                lambda: ChatToResponsesStream(head),
            )
        case "chat":
            wants_usage = asks_for_usage(body)
            return CallTranslation(
                build_messages_request(body, can.max_tokens),
                "messages",
                lambda reply: build_completion(reply, created),
                lambda error, status: to_chat_error(error),
                lambda: MessagesToChatStream(created, wants_usage=wants_usage),
            )


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _AskedOptions(msgspec.Struct):
    stream_options: _StreamOptions | None = None


def asks_for_usage(body: bytes) -> bool:
    try:
        options = msgspec.json.decode(body, type=_AskedOptions).stream_options
    except msgspec.ValidationError:
        return False
    return options is not None and options.include_usage is True


class TranslatedReply(UpstreamReply):
    """The reply of an upstream in another dialect than its own."""

    def __init__(self, reply: UpstreamReply, translation: CallTranslation, dialect: DialectName) -> None:
        self.status = reply.status
        self.headers = rename_request_id(reply.headers, dialect)
        self._reply = reply
        self._translation = translation
        streams = reply.status < 400 and is_event_stream(reply)
        self._stream = translation.open_stream() if streams else None
        self._ended = False

    async def read(self) -> bytes:
        if self._ended:
            return b""
        if self._stream is None:
            self._ended = True
            return await self._read_whole()
        while data := await self._reply.read():
            if told := self._stream.feed(data):
                return told
        self._ended = True
        return self._stream.end()

    async def read_all(self) -> bytes:
        pieces = []
        while piece := await self.read():
            pieces.append(piece)
        return b"".join(pieces)

    async def forward(self, take: TakeBytes) -> bool:
        stream = self._stream
        if stream is None or self._ended:
            return await super().forward(take)

        def pass_on(data: bytes) -> bool:
            told = stream.feed(data)
            return take(told) if told else True

        if not await self._reply.forward(pass_on):
            return False
        self._ended = True
        rest = stream.end()
        return take(rest) if rest else True

    async def finish(self) -> None:
        await self._reply.finish()

    async def close(self) -> None:
        await self._reply.close()

    async def _read_whole(self) -> bytes:
        body, translation = await self._reply.read_all(), self._translation
        if self.status >= 400:
            return translation.translate_error(body, self.status)
        return await run_beside(body, lambda: translation.translate_reply(body))


async def run_beside(body: bytes, work: Callable[[], R]) -> R:
    """Do what takes time that grows with a body: in a thread if that is large."""
    return await asyncio.to_thread(work) if len(body) > LARGE_BODY else work()


def rename_request_id(headers: Mapping[str, str], dialect: DialectName) -> Mapping[str, str]:
    """The provider's id of the request under the name that the client's dialect has for it."""
    wanted = REQUEST_IDS.get(dialect, MESSAGES_REQUEST_ID)
    known = next((headers[name] for name in ("x-request-id", MESSAGES_REQUEST_ID) if name in headers), None)
    return headers if known is None else {**headers, wanted: known}
