"""Streams as a provider may legally write them, although few do: the same reply in many forms."""

import random
from typing import Any

import orjson

Event = dict[str, Any]

UNKNOWN_EVENTS: tuple[Event, ...] = ({"type": "ping"}, {"type": "ping", "hint": {"a": 1}}, {"type": "never_heard_of"})
COMMENTS = (b": keep-alive\n\n", b":\n\n", b"event: nothing\n\n", b"retry: 10\n\n")


def cut_oddly(text: str, chance: random.Random) -> list[str]:
    """Pieces of any size, also empty ones, that add up to a text."""
    pieces, at = [], 0
    most = chance.choice((1, 1, 3, 40))
    while at < len(text):
        step = chance.randint(1, most)
        pieces.append(text[at : at + step])
        at += step
    for _ in range(chance.randint(0, 2)):
        pieces.insert(chance.randint(0, len(pieces)), "")
    return pieces


def frame(events: list[Event | bytes], chance: random.Random, *, named: bool) -> bytes:
    """Events as bytes: with or without names, spaces, carriage returns and comments between them."""
    newline = chance.choice((b"\n", b"\n", b"\r\n"))
    space = chance.choice((b" ", b" ", b""))
    with_names = named and chance.random() < 0.8
    written = []
    for event in events:
        while chance.random() < 0.1:
            written.append(chance.choice(COMMENTS).replace(b"\n", newline))
        data = event if isinstance(event, bytes) else orjson.dumps(event)
        name = b"event: " + event["type"].encode() + newline if with_names and isinstance(event, dict) else b""
        written.append(name + b"data:" + space + data + newline * 2)
    return b"".join(written)


def write_odd_message(message: dict[str, Any], chance: random.Random) -> bytes:
    """A whole message of Anthropic's as one of the streams that it could have been."""
    events: list[Event | bytes] = []
    usage: dict[str, Any] = message["usage"]
    started = chance.choice((usage | {"output_tokens": 1}, {"input_tokens": 1, "output_tokens": 0}, None))
    start = {**message, "content": [], "stop_reason": None, "stop_sequence": None}
    start["usage"] = started
    events.append({"type": "message_start", "message": start})
    for index, block in enumerate(message["content"]):
        begun, deltas = split_oddly(block, chance)
        events.append({"type": "content_block_start", "index": index, "content_block": begun})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events += write_odd_end(message, chance)
    last = len(events) - 1 if chance.random() < 0.8 else len(events)  # the last event may be missing
    for _ in range(chance.randint(0, 4)):
        events.insert(chance.randint(1, last), chance.choice(UNKNOWN_EVENTS))
    return frame(events, chance, named=True)


def write_odd_end(message: dict[str, Any], chance: random.Random) -> list[Event]:
    """Why the model stopped and what it used, in one event or in two, and the end, which may come twice or not."""
    stop = {name: message.get(name) for name in ("stop_reason", "stop_sequence", "stop_details")}
    why: Event = {"type": "message_delta", "delta": stop, "usage": {"output_tokens": None}}
    used: Event = {"type": "message_delta", "delta": {"stop_reason": None}, "usage": message["usage"]}
    ends: list[Event] = chance.choice(([{**why, "usage": message["usage"]}], [why, used], [used, why]))
    return ends + [{"type": "message_stop"}] * chance.choice((0, 1, 1, 1, 2))


def split_oddly(block: dict[str, Any], chance: random.Random) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "text":
            pieces = cut_oddly(block["text"], chance)
            first = pieces.pop(0) if pieces and chance.random() < 0.3 else ""
            return {**block, "text": first}, [{"type": "text_delta", "text": piece} for piece in pieces]
        case "thinking":
            told = [{"type": "thinking_delta", "thinking": piece} for piece in cut_oddly(block["thinking"], chance)]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*told, signed]
        case "tool_use":
            if block["input"] and chance.random() < 0.3:
                return block, []
            written = orjson.dumps(block["input"]).decode() if block["input"] or chance.random() < 0.5 else ""
            pieces = cut_oddly(written, chance)
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block, []


class OddChunks:
    """Writes one whole completion as one of the streams of chunks that it could have been."""

    def __init__(self, completion: dict[str, Any], chance: random.Random) -> None:
        self._chance = chance
        self._choice = completion["choices"][0]
        self._usage = completion.get("usage")
        self._head = {name: completion[name] for name in ("id", "created", "model")}
        self._quiet = chance.choice(({}, {"content": None}, {"content": "", "tool_calls": None, "refusal": None}))
        self._unfinished = chance.choice((None, None, ""))
        self._has_usage = chance.random() < 0.3  # in every chunk

    def write(self) -> bytes:
        chance = self._chance
        message = self._choice["message"]
        deltas: list[dict[str, Any]] = [{"role": "assistant", **self._quiet}]
        for name in ("reasoning_content", "reasoning", "content", "refusal"):
            deltas += [{**self._quiet, name: piece} for piece in cut_oddly(message.get(name) or "", chance)]
        deltas += [{**self._quiet, "tool_calls": some} for some in self._split_calls(message.get("tool_calls") or [])]
        chunks = [self._chunk(delta) for delta in deltas]
        if chance.random() < 0.3:
            chunks.insert(0, {**self._head, "id": "", "choices": []})
        if chance.random() < 0.3:
            chunks[-1]["choices"][0]["finish_reason"] = self._choice["finish_reason"]
        else:
            chunks.append(self._chunk({}, self._choice["finish_reason"]))
        self._add_usage(chunks)
        return frame([*chunks, *chance.choice(([], [b"[DONE]"], [b"[DONE]"], [b"[DONE]"] * 2))], chance, named=False)

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish or self._unfinished}
        partial = {"usage": {"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1}} if self._has_usage else {}
        return {**self._head, "choices": [choice], **partial}

    def _add_usage(self, chunks: list[dict[str, Any]]) -> None:
        if self._usage is None:
            return
        match self._chance.randrange(3):
            case 0:
                chunks[-1]["usage"] = self._usage
            case 1:
                chunks.append({**self._head, "choices": [], "usage": self._usage})
            case 2:
                trailing = {"index": 0, "delta": dict(self._quiet), "finish_reason": None}
                chunks.append({**self._head, "choices": [trailing], "usage": self._usage})

    def _split_calls(self, calls: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
        chance = self._chance
        if calls and chance.random() < 0.2:
            return [[{"index": index, **call} for index, call in enumerate(calls)]]  # all in one chunk
        numbering = chance.choice(("index", "index", "none", "zero"))
        repeats = chance.random() < 0.2
        by_call = []
        for position, call in enumerate(calls):
            index = {"index": {"index": position}, "none": {}, "zero": {"index": 0}}[numbering]
            named = {"id": call["id"], "type": "function"}
            function = call["function"]
            begun = {"name": function["name"], **chance.choice(({}, {"arguments": ""}, {"arguments": None}))}
            deltas = [{**index, **named, "function": begun}]
            for piece in cut_oddly(function["arguments"], chance):
                again = {**named, "function": {"name": function["name"], "arguments": piece}}
                deltas.append({**index, **(again if repeats else {"function": {"arguments": piece}})})
            by_call.append(deltas)
        if numbering == "index" and chance.random() < 0.5:
            return interleave(by_call, chance)
        return [[delta] for deltas in by_call for delta in deltas]


def interleave(by_call: list[list[dict[str, Any]]], chance: random.Random) -> list[list[dict[str, Any]]]:
    """Fragments of several calls in any order, but each call's in their own, and the calls begin in theirs."""
    chunks, begun = [], 0
    left = [list(deltas) for deltas in by_call]
    while any(left):
        ready = [position for position, deltas in enumerate(left[: begun + 1]) if deltas]
        position = chance.choice(ready)
        begun = max(begun, position + 1)
        chunks.append([left[position].pop(0)])
    return chunks
