"""What the scripted upstream says, written as OpenAI's responses: one document, or the same as typed events."""

from typing import Any

import orjson

from tests.support.upstream import Answer, Canned, Piece, Response

USAGE = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12, "input_tokens_details": {"cached_tokens": 1}}
ECHOED = ("instructions", "tools", "tool_choice", "previous_response_id", "metadata", "store", "text")


def list_items(answer: Answer, number: int) -> list[dict[str, Any]]:
    """The output items of a turn, in the order in which models write them."""
    message, items = answer.message, []
    if message.get("reasoning_content"):
        summary = [{"type": "summary_text", "text": message["reasoning_content"]}]
        secret = {"encrypted_content": message.get("encrypted", f"enc{number}")}
        items.append({"id": f"rs_{number}", "type": "reasoning", "summary": summary, **secret})
    if message.get("content"):
        part = {"type": "output_text", "text": message["content"], "annotations": []}
        items.append(
            {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        )
    for at, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        head = {"id": f"fc_{number}_{at}", "type": "function_call", "status": "completed", "call_id": call["id"]}
        items.append({**head, "name": function["name"], "arguments": function["arguments"]})
    return items


def build_response(answer: Answer, request: dict[str, Any], number: int) -> dict[str, Any]:
    echoed: dict[str, Any] = {"instructions": None, "tools": [], "tool_choice": "auto", "previous_response_id": None}
    echoed |= {name: request[name] for name in ECHOED if name in request}
    cut = answer.finish_reason == "length"
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_700_000_000 + number,
        "status": "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "model": request.get("model"),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "top_p": 1.0,
        **echoed,
        "output": list_items(answer, number),
        "usage": USAGE if answer.usage is not None else None,
        **answer.top,
    }


def respond_with_response(answer: Answer, request: dict[str, Any], number: int) -> Response:
    whole = build_response(answer, request, number)
    if not request.get("stream"):
        return Response(200, "application/json", (*answer.before, orjson.dumps(whole)), answer.headers)
    events = list(make_events(answer, whole))
    return Response(200, "text/event-stream; charset=utf-8", (*answer.before, *cut(answer, events)), answer.headers)


def cut(answer: Answer, events: list[dict[str, Any]]) -> list[Piece]:
    written: list[bytes] = []
    for sequence, event in enumerate(events):
        data = orjson.dumps({**event, "sequence_number": sequence})
        nl = answer.newline
        written.append(b"event: " + event["type"].encode() + nl + b"data: " + data + nl * 2)
    whole = b"".join(written)
    if answer.packed:
        return [whole]
    if answer.split:
        return [whole[at : at + answer.split] for at in range(0, len(whole), answer.split)]
    first_call = next(
        (at for at, event in enumerate(events) if event.get("item", {}).get("type") == "function_call"), 0
    )
    return [*written[:first_call], *answer.after_text, *written[first_call:]]


def make_events(answer: Answer, whole: dict[str, Any]) -> list[dict[str, Any]]:
    begun = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(whole["output"]):
        events += make_item_events(item, index, answer.pieces)
    events.append({"type": f"response.{whole['status']}", "response": whole})
    return events


def make_item_events(item: dict[str, Any], index: int, size: int) -> list[dict[str, Any]]:
    place: dict[str, Any] = {"item_id": item["id"], "output_index": index}
    match item["type"]:
        case "message":
            begun, part = {**item, "status": "in_progress", "content": []}, item["content"][0]
            place = {**place, "content_index": 0}
            name, text, empty = "response.output_text", part["text"], {**part, "text": ""}
            inner = [{"type": "response.content_part.added", **place, "part": empty}]
            inner += [{"type": f"{name}.delta", **place, "delta": one, "logprobs": []} for one in split(text, size)]
            inner.append({"type": f"{name}.done", **place, "text": text, "logprobs": []})
            inner.append({"type": "response.content_part.done", **place, "part": part})
        case "function_call":
            begun, text = {**item, "status": "in_progress", "arguments": ""}, item["arguments"]
            name = "response.function_call_arguments"
            inner = [{"type": f"{name}.delta", **place, "delta": one} for one in split(text, size)]
            inner.append({"type": f"{name}.done", **place, "name": item["name"], "arguments": text})
        case _:
            begun, place = {**item, "summary": []}, {**place, "summary_index": 0}
            text, name = item["summary"][0]["text"], "response.reasoning_summary"
            inner = [{"type": f"{name}_part.added", **place, "part": {"type": "summary_text", "text": ""}}]
            inner += [{"type": f"{name}_text.delta", **place, "delta": one} for one in split(text, size)]
            inner.append({"type": f"{name}_text.done", **place, "text": text})
            inner.append({"type": f"{name}_part.done", **place, "part": item["summary"][0]})
    added = {"type": "response.output_item.added", "output_index": index, "item": begun}
    return [added, *inner, {"type": "response.output_item.done", "output_index": index, "item": item}]


def split(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def answer_with(*items: dict[str, Any], stream: bool, number: int = 0, index: int = 0, **fields: Any) -> Canned:
    """A response with these items, whatever they are; a stream that counts its events and items from other numbers."""
    whole = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", **fields, "output": list(items)}
    if not stream:
        return Canned(Response(200, "application/json", (orjson.dumps(whole),)))
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**whole, "output": []}}]
    for place, item in enumerate(items, index):
        events.append({"type": "response.output_item.added", "output_index": place, "item": item})
        events += (
            {"type": "response.output_text.delta", "output_index": place, "item_id": item["id"], "delta": word}
            for part in item.get("content", ())
            for word in part["text"].split()
        )
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    events.append({"type": f"response.{whole['status']}", "response": whole})
    written = [
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), orjson.dumps({**event, "sequence_number": at}))
        for at, event in enumerate(events, number)
    ]
    return Canned(Response(200, "text/event-stream", tuple(written)))
