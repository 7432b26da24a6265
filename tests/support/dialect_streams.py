"""Streams of the three dialects, written as providers write them and read as clients read them."""

from collections.abc import Callable
from typing import Any

import msgspec

from gateway import sse
from gateway.upstreams.translation.messages_to_chat_stream import StreamTranslator
from tests.support.cut_places import list_cuts

encode = msgspec.json.encode
decode = msgspec.json.decode
PIECE = 4  # characters of a delta


def read_events(data: bytes) -> list[Any]:
    """The documents of all events, without comments and [DONE]."""
    payloads = [sse.read_payload(event) for event in sse.split_events(data)]
    return [decode(payload) for payload in payloads if payload and payload != sse.DONE]


def write_message_events(message: dict[str, Any]) -> bytes:
    """A whole message of Anthropic's as the stream that it could have been."""
    start = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(message["content"]):
        begun, deltas = split_block(block)
        events.append({"type": "content_block_start", "index": index, "content_block": begun})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    stop = {name: message.get(name) for name in ("stop_reason", "stop_sequence", "stop_details")}
    usage = {"output_tokens": message["usage"]["output_tokens"]}
    events += [{"type": "message_delta", "delta": stop, "usage": usage}, {"type": "message_stop"}]
    return b"".join(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), encode(event)) for event in events)


def split_block(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": part} for part in cut(block["text"])]
        case "thinking":
            told = [{"type": "thinking_delta", "thinking": part} for part in cut(block["thinking"])]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*told, signed]
        case "tool_use":
            written = encode(block["input"]).decode() if block["input"] else ""
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in cut(written)]
    return block, []


def cut(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


def merge_chunks(events: list[bytes]) -> dict[str, Any]:
    """The choice of a chat stream as clients put it together."""
    message: dict[str, Any] = {}
    finish: str | None = None
    for chunk in read_events(b"".join(events)):
        for choice in chunk["choices"]:
            finish = choice["finish_reason"] or finish
            for name, value in choice["delta"].items():
                if name == "tool_calls":
                    merge_calls(message.setdefault(name, []), value)
                elif name == "thinking_blocks":
                    merge_thoughts(message.setdefault(name, []), value)
                elif isinstance(value, str) and name != "role":
                    message[name] = message.get(name, "") + value
    return {"message": message, "finish_reason": finish}


def merge_calls(calls: list[dict[str, Any]], deltas: list[dict[str, Any]]) -> None:
    for delta in deltas:
        if delta["index"] == len(calls):
            calls.append({**delta, "function": dict(delta["function"])})
            calls[-1].pop("index")
        else:
            calls[delta["index"]]["function"]["arguments"] += delta["function"]["arguments"]


def merge_thoughts(thoughts: list[dict[str, Any]], fragments: list[dict[str, Any]]) -> None:
    for fragment in fragments:
        if fragment["index"] == len(thoughts):
            thoughts.append(dict(fragment))
            continue
        known = thoughts[fragment["index"]]
        for name in ("thinking", "signature"):
            if fragment.get(name):
                known[name] = known.get(name, "") + fragment[name]


def merge_message_events(data: bytes) -> dict[str, Any]:
    """The message of a stream of Anthropic's, as clients put it together; checks that the indexes have no gaps."""
    message: dict[str, Any] = {}
    partial: dict[int, str] = {}
    opened: int | None = None
    for event in read_events(data):
        match event["type"]:
            case "message_start":
                assert not message
                message = event["message"]
            case "content_block_start":
                assert (opened, event["index"]) == (None, len(message["content"]))
                opened = event["index"]
                message["content"].append(event["content_block"])
            case "content_block_delta":
                assert event["index"] == opened
                add_delta(message["content"][event["index"]], event["delta"], partial, event["index"])
            case "content_block_stop":
                assert event["index"] == opened
                if opened in partial:
                    message["content"][opened]["input"] = decode(partial[opened].encode())
                opened = None
            case "message_delta":
                message |= event["delta"]
                message["usage"] |= event["usage"]
            case "message_stop":
                assert opened is None
                message["stopped"] = True
    return message


def add_delta(block: dict[str, Any], delta: dict[str, Any], partial: dict[int, str], index: int) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            block["signature"] += delta["signature"]
        case "input_json_delta":
            partial[index] = partial.get(index, "") + delta["partial_json"]


def feed_every_cut(make: Callable[[], StreamTranslator], data: bytes) -> bytes:
    """What a translator makes of a stream; asserts that it does not matter where the stream is cut."""
    whole = make()
    expected = whole.feed(data) + whole.end()
    for at in list_cuts(data)[1:-1]:
        translator = make()
        told = translator.feed(data[:at]) + translator.feed(data[at:]) + translator.end()
        assert told == expected, f"cut at {at}"
    single = make()
    assert b"".join([single.feed(data[at : at + 1]) for at in range(len(data))]) + single.end() == expected
    return expected
