"""The built-in upstream: a small deterministic model, so that everything can be tried without a key."""

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from gateway import sse
from gateway.domain.upstream import Capabilities, UpstreamReply, UpstreamRequest
from gateway.upstreams.demo.model import DemoAnswer, answer_request
from gateway.upstreams.demo.request import DemoRequest
from gateway.upstreams.replies import (
    EVENT_STREAM_HEADERS,
    MemoryReply,
    build_error_reply,
    build_json_reply,
    encode_json_event,
    find_param,
)

Clock = Callable[[], float]


class DemoUpstream:
    """Answers from the injected context and really calls the tools."""

    passes_bearer = False

    def __init__(self, name: str, clock: Clock = time.time) -> None:
        self.name = name
        self.capabilities = Capabilities()
        self._clock = clock

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        if request.path.partition("?")[0] != "/chat/completions":
            return build_error_reply(404, f"The demo model has no endpoint {request.path}.", code="unknown_url")
        try:
            chat = msgspec.json.decode(request.body, type=DemoRequest)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as fault:
            return build_error_reply(400, str(fault), param=find_param(fault))
        digest = hashlib.sha256(request.body).hexdigest()[:24]
        completion = DemoCompletion(chat, answer_request(chat), digest, int(self._clock()))
        if chat.stream:
            return MemoryReply(200, completion.encode_events(), EVENT_STREAM_HEADERS)
        return build_json_reply(completion.build_document())

    async def list_models(self, bearer: str | None = None) -> list[dict[str, Any]]:
        return [{"id": "demo", "object": "model", "created": 0, "owned_by": "demo"}]

    async def close(self) -> None:
        """Nothing is open."""


class DemoCompletion:
    """One answer in OpenAI's wire format."""

    def __init__(self, chat: DemoRequest, answer: DemoAnswer, digest: str, created: int) -> None:
        self._chat = chat
        self._answer = answer
        self._digest = digest
        self._created = created
        self._finish_reason = "tool_calls" if answer.calls else "stop"

    def build_document(self) -> dict[str, Any]:
        """The whole completion."""
        calls = self._build_calls()
        message: dict[str, Any] = {"role": "assistant", "content": None if calls else self._answer.text}
        if calls:
            message["tool_calls"] = calls
        choices = [
            {"index": index, "message": message, "logprobs": None, "finish_reason": self._finish_reason}
            for index in range(self._chat.n or 1)
        ]
        return self._build_head("chat.completion") | {"choices": choices, "usage": self._count_usage()}

    def encode_events(self) -> Iterator[bytes]:
        """The completion as a stream, one event per word."""
        wants_usage = self._chat.stream_options is not None and self._chat.stream_options.include_usage
        head = self._build_head("chat.completion.chunk") | ({"usage": None} if wants_usage else {})
        for index in range(self._chat.n or 1):
            for delta in self._build_deltas():
                yield encode_json_event(head | {"choices": [{"index": index, "delta": delta, "finish_reason": None}]})
            yield encode_json_event(
                head | {"choices": [{"index": index, "delta": {}, "finish_reason": self._finish_reason}]}
            )
        if wants_usage:
            yield encode_json_event(head | {"choices": [], "usage": self._count_usage()})
        yield sse.DONE_EVENT

    def _build_deltas(self) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": None if self._answer.calls else ""}
        for word in re.findall(r"\s*\S+|\s+$", self._answer.text):
            yield {"content": word}
        for index, call in enumerate(self._build_calls()):
            function = call["function"]
            yield {"tool_calls": [{"index": index} | call | {"function": function | {"arguments": ""}}]}
            yield {"tool_calls": [{"index": index, "function": {"arguments": function["arguments"]}}]}

    def _build_calls(self) -> list[dict[str, Any]]:
        return [
            {
                "id": f"call_{self._digest}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": msgspec.json.encode(call.arguments).decode()},
            }
            for index, call in enumerate(self._answer.calls)
        ]

    def _build_head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-demo-{self._digest}",
            "object": kind,
            "created": self._created,
            "model": self._chat.model,
        }

    def _count_usage(self) -> dict[str, int]:
        """Words instead of tokens: rough, but the same every time."""
        asked = sum(len(message.text.split()) for message in self._chat.messages)
        said = len(self._answer.text.split()) + sum(1 + len(call.arguments) for call in self._answer.calls)
        said *= self._chat.n or 1
        return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
