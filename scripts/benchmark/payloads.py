"""The bytes that travel: requests of two sizes, a reply, a stream of 64 chunks, and the 4 KB that are injected."""

import json
from typing import Any

BURST = "bench-burst"  # a stream that arrives at once, as fast as the sockets take it
PACED = "bench-paced"  # a stream whose chunks arrive one by one, like a model's tokens
PIECES = "bench-pieces"  # a stream that arrives in a fixed number of pieces, about as a gateway at full speed reads it
SLOW_PIECES = "bench-slow-pieces"  # the same for a gateway that is traced
PROBE = "bench-probe"  # answered with what the upstream received, so that nobody measures the wrong thing

CHUNKS = 64
MARK = "Follow the house style"
SENTENCE = f"{MARK}: short sentences, plain words, one thought each, and a source for every figure. "
CONTEXT = (SENTENCE * (4096 // len(SENTENCE) + 1))[:4096].strip()
QUESTION = "Which of the points above should the introduction take up first, and which can wait until the end? "
HEAD = {"id": "chatcmpl-BenchmarkReply000000000000000", "created": 1_700_000_000, "model": "bench"}
USAGE = {"prompt_tokens": 1200, "completion_tokens": CHUNKS, "total_tokens": 1200 + CHUNKS}
REPLY_WORDS = "The introduction should name the reader's problem first; the history of the product can wait. " * 3


def build_chat(size: int, model: str, *, stream: bool) -> bytes:
    """A chat request of about `size` bytes: a system message, a history of 1 KB messages and a question."""
    messages = [{"role": "system", "content": "You are a careful editor who answers in English."}]
    while size > 2048:
        role = "assistant" if len(messages) % 2 == 0 else "user"
        messages.append({"role": role, "content": (QUESTION * 11)[:980]})
        size -= 1024
    messages.append({"role": "user", "content": (QUESTION * 11)[: size - 220]})
    fields: dict[str, Any] = {"model": model, "messages": messages, "temperature": 0.3}
    if stream:
        fields["stream"] = True
    return encode_compact(fields)


def build_reply() -> bytes:
    message = {"role": "assistant", "content": REPLY_WORDS, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return encode_compact({**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE})


def build_events(*, usage: bool) -> list[bytes]:
    """The stream, event by event; with usage, every chunk says so and one more carries it."""
    silent = {"usage": None} if usage else {}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": f" word{number}"} for number in range(1, CHUNKS)]
    said = [encode_event({"choices": [build_choice(delta)], **silent}) for delta in deltas]
    said.append(encode_event({"choices": [build_choice({}, "stop")], **silent}))
    if usage:
        said.append(encode_event({"choices": [], "usage": USAGE}))
    return [*said, b"data: [DONE]\n\n"]


def build_choice(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def encode_event(fields: dict[str, Any]) -> bytes:
    head = {**HEAD, "object": "chat.completion.chunk", "service_tier": "default", "system_fingerprint": "fp_0123456789"}
    return b"data: " + encode_compact({**head, **fields}) + b"\n\n"


def encode_compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
