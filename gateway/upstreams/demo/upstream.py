"""The built-in upstream: a small deterministic model, so that everything can be seen without a key."""

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from gateway.domain.upstream import Capabilities, UpstreamReply, UpstreamRequest
from gateway.upstreams.demo.model import DemoAnswer, answer
from gateway.upstreams.demo.request import DemoRequest
from gateway.upstreams.replies import DONE, EVENTS, MemoryReply, error_reply, event, json_reply, param_of

Clock = Callable[[], float]


class DemoUpstream:
    """Answers from the injected context and really calls the tools."""

    passes_bearer = False

    def __init__(self, name: str, clock: Clock = time.time) -> None:
        self.name = name
        self.can = Capabilities()
        self._clock = clock

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        if request.path != "/chat/completions":
            return error_reply(404, f"The demo model has no endpoint {request.path}.", code="unknown_url")
        try:
            chat = msgspec.json.decode(request.body, type=DemoRequest)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as fault:
            return error_reply(400, str(fault), param=param_of(fault))
        wire = Wire(chat, answer(chat), hashlib.sha256(request.body).hexdigest()[:24], int(self._clock()))
        return MemoryReply(200, wire.events(), EVENTS) if chat.stream else json_reply(wire.document())

    async def models(self) -> list[dict[str, Any]]:
        return [{"id": "demo", "object": "model", "created": 0, "owned_by": "demo"}]

    async def close(self) -> None:
        """Nothing is held open."""


class Wire:
    """One answer in OpenAI's wire format."""

    def __init__(self, chat: DemoRequest, said: DemoAnswer, digest: str, created: int) -> None:
        self._chat = chat
        self._said = said
        self._digest = digest
        self._created = created
        self._finish = "tool_calls" if said.calls else "stop"

    def document(self) -> dict[str, Any]:
        """The whole completion."""
        calls = self._calls()
        message: dict[str, Any] = {"role": "assistant", "content": None if calls else self._said.text}
        if calls:
            message["tool_calls"] = calls
        choices = [
            {"index": index, "message": message, "logprobs": None, "finish_reason": self._finish}
            for index in range(self._chat.n or 1)
        ]
        return self._head("chat.completion") | {"choices": choices, "usage": self._usage()}

    def events(self) -> Iterator[bytes]:
        """The completion as a stream, one event per word."""
        counted = self._chat.stream_options is not None and self._chat.stream_options.include_usage
        head = self._head("chat.completion.chunk") | ({"usage": None} if counted else {})
        for index in range(self._chat.n or 1):
            for delta in self._deltas():
                yield event(head | {"choices": [{"index": index, "delta": delta, "finish_reason": None}]})
            yield event(head | {"choices": [{"index": index, "delta": {}, "finish_reason": self._finish}]})
        if counted:
            yield event(head | {"choices": [], "usage": self._usage()})
        yield DONE

    def _deltas(self) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": None if self._said.calls else ""}
        for word in re.findall(r"\s*\S+|\s+$", self._said.text):
            yield {"content": word}
        for index, call in enumerate(self._calls()):
            function = call["function"]
            yield {"tool_calls": [{"index": index} | call | {"function": function | {"arguments": ""}}]}
            yield {"tool_calls": [{"index": index, "function": {"arguments": function["arguments"]}}]}

    def _calls(self) -> list[dict[str, Any]]:
        return [
            {
                "id": f"call_{self._digest}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": msgspec.json.encode(call.arguments).decode()},
            }
            for index, call in enumerate(self._said.calls)
        ]

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-demo-{self._digest}",
            "object": kind,
            "created": self._created,
            "model": self._chat.model,
        }

    def _usage(self) -> dict[str, int]:
        """Words instead of tokens: rough, but the same every time."""
        asked = sum(len(message.text.split()) for message in self._chat.messages)
        said = len(self._said.text.split()) + sum(1 + len(call.arguments) for call in self._said.calls)
        said *= self._chat.n or 1
        return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
