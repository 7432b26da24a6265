"""The end of a stream with our tools: as the upstream wrote it where nothing is hidden, without our calls elsewhere."""

from typing import Any

import orjson
import pytest
from msgspec import Raw

from gateway import sse
from gateway.conversation.dialects.responses.dialect import RESPONSES
from gateway.conversation.loop import FinishStep
from gateway.conversation.stream_loop import StreamLoop
from gateway.conversation.turn import LoopPlan, TurnLimits

GET = "get_context_resource"
MESSAGE = {"id": "msg", "type": "message", "content": [{"type": "output_text", "text": "Hi."}]}
OTHER = {**MESSAGE, "id": "msg2"}
OWN = {"id": "fc", "type": "function_call", "call_id": "c", "name": GET, "arguments": "{}"}
PLACE = {"item_id": "msg", "output_index": 0, "content_index": 0}


def write(*told: dict[str, Any], start: int = 0) -> bytes:
    """Events with spaces that no encoder of ours would write."""
    numbered = [{**event, "sequence_number": number} for number, event in enumerate(told, start)]
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), orjson.dumps(event).replace(b'"object":', b'"object": '))
        for event in numbered
    )


def list_events(output: list[dict[str, Any]], announced: int = 1) -> list[dict[str, Any]]:
    response = {"id": "r", "object": "response", "status": "completed", "instructions": "Mine, ours"}
    part = {"type": "output_text", "text": ""}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**MESSAGE, "content": []}},
        {"type": "response.content_part.added", **PLACE, "part": part},
        {"type": "response.output_text.delta", **PLACE, "delta": "Hi"},
        {"type": "response.output_text.delta", **PLACE, "delta": "."},
        {"type": "response.output_text.done", **PLACE, "text": "Hi."},
        {"type": "response.content_part.done", **PLACE, "part": {**part, "text": "Hi."}},
        {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE},
    ]
    if not announced:
        events = events[:1]
    return [*events, {"type": "response.completed", "response": {**response, "output": output, "usage": {"n": 1}}}]


def run(data: bytes, size: int, turns: int = 5) -> bytes:
    """What the client sees, if the turn is the last."""
    fields = {"instructions": Raw(b'"Mine"')}
    plan = LoopPlan(RESPONSES, {}, [], (Raw(b"{}"),), frozenset({GET}), limits=TurnLimits(turns), client_fields=fields)
    loop = StreamLoop(plan)
    loop.build_request()
    shown = b"".join([loop.feed(data[at : at + size]) for at in range(0, len(data), size)])
    step = loop.end()
    assert isinstance(step, FinishStep)
    return shown + step.data


@pytest.mark.parametrize("size", [1, 50, 400, 100_000])
def test_a_stream_in_which_nothing_is_hidden_keeps_its_bytes(size: int) -> None:
    data = write(*list_events([MESSAGE]))
    assert run(data, size) == data.replace(b'"Mine, ours"', b'"Mine"')


@pytest.mark.parametrize("size", [1, 100_000])
def test_an_item_that_was_never_announced_is_in_the_response(size: int) -> None:
    data = write(*list_events([MESSAGE, OTHER]))
    assert run(data, size) == data.replace(b'"Mine, ours"', b'"Mine"')


@pytest.mark.parametrize("size", [1, 100_000])
def test_an_end_whose_number_is_none_gets_one(size: int) -> None:
    data = write(*list_events([]))
    shown = sse.split_events(run(data.replace(b'"sequence_number":8', b'"sequence_number":"x"'), size))
    assert orjson.loads(sse.read_payload(shown[-1]) or b"")["sequence_number"] == 8


@pytest.mark.parametrize("size", [1, 100_000])
def test_events_that_are_numbered_otherwise_get_the_client_s_numbers(size: int) -> None:
    shown = sse.split_events(run(write(*list_events([MESSAGE]), start=1), size))
    told = [orjson.loads(sse.read_payload(event) or b"") for event in shown]
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    assert told[-1]["response"]["output"] == [MESSAGE]


@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize("announced", [0, 1])
def test_a_call_of_ours_that_only_the_end_tells_of_is_not_shown(size: int, announced: int) -> None:
    shown = run(write(*list_events([MESSAGE, OWN], announced)), size, turns=1)
    assert GET.encode() not in shown
    last = orjson.loads(sse.read_payload(sse.split_events(shown)[-1]) or b"")
    assert last["response"]["output"] == [MESSAGE]
