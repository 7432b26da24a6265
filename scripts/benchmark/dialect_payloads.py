"""The same requests, replies and streams as in payloads.py, in the other dialects."""

import json
from typing import Any

from scripts.benchmark import payloads
from scripts.benchmark.payloads import CHUNKS, REPLY_WORDS, USAGE, encode_compact

PATHS = {"chat": "/chat/completions", "responses": "/responses", "messages": "/messages"}
UNSTORED = "responses, store: false"
# What stands in the last bytes of a whole stream.
ENDS = {"chat": "data: [DONE]", "responses": '"sequence_number":', "messages": "message_stop"}
ENDS[UNSTORED] = ENDS["responses"]
# Ids of a response and its item, each as long as that of any other response.
RESPONSE_ID, ITEM_ID = b"resp_BenchmarkReply000000000000000", b"msg_Bench000000000000000"
SPENT = {"input_tokens": USAGE["prompt_tokens"], "output_tokens": USAGE["completion_tokens"]}


def build_request(dialect: str, size: int, model: str, *, stream: bool) -> bytes:
    """A request of about `size` bytes that says what the chat request of this size says."""
    chat = payloads.build_chat(size, model, stream=stream)
    if dialect == "chat":
        return chat
    fields = json.loads(chat)
    (system, *said) = fields.pop("messages")
    if dialect == "messages":
        return encode_compact({**fields, "max_tokens": 512, "system": system["content"], "messages": said})
    stored = {"store": False} if dialect == UNSTORED else {}
    return encode_compact({**fields, "instructions": system["content"], "input": said, **stored})


def build_reply(dialect: str, text: str = REPLY_WORDS) -> bytes:
    if dialect == "chat":
        return payloads.build_reply().replace(REPLY_WORDS.encode(), text.encode())
    return encode_compact(build_message(text) if dialect == "messages" else build_response(text))


def number_ids(data: bytes, number: int) -> bytes:
    """The same part of a response under ids of its own: whoever stores responses has to store each of them."""
    end = b"%015d" % number
    return data.replace(RESPONSE_ID, RESPONSE_ID[:-15] + end).replace(ITEM_ID, ITEM_ID[:-15] + end)


def read_text(reply: dict[str, Any]) -> str:
    """What a reply in any dialect says."""
    if "choices" in reply:
        return str(reply["choices"][0]["message"]["content"])
    message = reply["output"][0] if "output" in reply else reply
    return str(message["content"][0]["text"])


def build_message(text: str) -> dict[str, Any]:
    head = {"id": "msg_BenchmarkReply000000000000000", "type": "message", "role": "assistant", "model": "bench"}
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    return {**head, "content": [{"type": "text", "text": text}], **stop, "usage": SPENT}


def build_response(text: str) -> dict[str, Any]:
    head = {"id": RESPONSE_ID.decode(), "object": "response", "created_at": 1_700_000_000}
    asked: dict[str, Any] = {
        "instructions": None,
        "tools": [],
        "tool_choice": "auto",
        "previous_response_id": None,
        "metadata": {},
    }
    rest = {"error": None, "incomplete_details": None, "model": "bench", "parallel_tool_calls": True, "store": True}
    usage = {**SPENT, "total_tokens": USAGE["total_tokens"]}
    return {**head, "status": "completed", **rest, **asked, "output": [build_item(text)], "usage": usage}


def build_item(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"id": ITEM_ID.decode(), "type": "message", "role": "assistant", "status": "completed", "content": [part]}


def build_events(dialect: str) -> list[bytes]:
    """A stream with as many pieces of text as that of chat completions."""
    events = list_message_events() if dialect == "messages" else list_response_events()
    return [b"event: %b\ndata: %b\n\n" % (event["type"].encode(), encode_compact(event)) for event in events]


def list_words() -> list[str]:
    return [f" word{number}" for number in range(1, CHUNKS)]


def list_message_events() -> list[dict[str, Any]]:
    start = {**build_message(""), "content": [], "stop_reason": None}
    block: dict[str, Any] = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    deltas: list[dict[str, Any]] = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
        for word in list_words()
    ]
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    ended: list[dict[str, Any]] = [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": CHUNKS}},
        {"type": "message_stop"},
    ]
    return [{"type": "message_start", "message": start}, block, *deltas, *ended]


def list_response_events() -> list[dict[str, Any]]:
    text = "".join(list_words())
    whole, place = build_response(text), {"item_id": ITEM_ID.decode(), "output_index": 0, "content_index": 0}
    item = whole["output"][0]
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    part = {"type": "output_text", "text": "", "annotations": []}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": part},
        *({"type": "response.output_text.delta", **place, "delta": word, "logprobs": []} for word in list_words()),
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": {**part, "text": text}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]
