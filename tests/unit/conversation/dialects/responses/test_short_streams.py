"""What is passed on undecoded, or decoded once, is what reading every event makes of it, whatever an upstream sends."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from gateway import sse
from gateway.conversation.dialects.responses import carried, events
from gateway.conversation.dialects.responses.dialect import RESPONSES
from gateway.conversation.dialects.responses.events import TEXT_PIECES, find_pieces
from gateway.conversation.loop import FinishStep
from gateway.conversation.stream_loop import StreamLoop
from gateway.conversation.turn import LoopPlan
from gateway.errors import UpstreamError

GET = "get_context_resource"
MESSAGE: dict[str, Any] = {"id": "msg", "type": "message", "content": [{"type": "output_text", "text": "Hi."}]}
OWN = {"id": "fc", "type": "function_call", "call_id": "c", "name": GET, "arguments": "{}"}
THEIRS = {**OWN, "name": "theirs"}
texts = st.text(alphabet='ab"é\\\n ', max_size=5)
odd: Any = st.sampled_from([None, 1, 1.5, "x", [], {}, {"instructions": "theirs"}])
outputs = st.one_of(st.lists(st.sampled_from([MESSAGE, OWN, THEIRS, {"type": "reasoning"}, {}]), max_size=3), odd)
responses = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "id": st.sampled_from(["r", "r", "é", None, 5]),
            "created_at": st.sampled_from([1, 2]),
            "model": st.just("m"),
            "status": st.one_of(st.sampled_from(["completed", "in_progress", "incomplete"]), odd),
            "output": outputs,
            "usage": st.one_of(st.just({"input_tokens": 1}), odd),
            "instructions": st.one_of(texts, st.none()),
            "tools": odd,
            "metadata": odd,
        },
    ),
    odd,
)
items = st.sampled_from([MESSAGE, MESSAGE, OWN, THEIRS, {"type": "reasoning"}])
kinds = st.sampled_from([*events.STARTS, *events.ENDS])
item_kinds = st.sampled_from([events.ITEM_ADDED, events.ITEM_DONE])
told_events = st.one_of(
    st.builds(lambda kind, response: {"type": kind, "response": response}, kinds, responses),
    st.builds(lambda kind, item: {"type": kind, "output_index": 0, "item": item}, item_kinds, items),
    st.builds(lambda text: {"type": events.TEXT_DELTA, "output_index": 0, "delta": text}, texts),
)
numbers = st.sampled_from([0, 0, 0, 0, 1, None, "x"])  # what is added to the number that is expected


def write(told: dict[str, Any], number: int, shift: Any, spaced: bool) -> bytes:
    numbered = told if shift is None else {**told, "sequence_number": shift if shift == "x" else number + shift}
    written = orjson.dumps(numbered)
    name = told["type"].encode()
    return b"event: %b\ndata: %b\n\n" % (name, written.replace(b'":', b'": ') if spaced else written)


streams = st.lists(st.tuples(told_events, numbers, st.booleans()), max_size=8).map(
    lambda some: [write(told, number, shift, spaced) for number, (told, shift, spaced) in enumerate(some)]
)


def run(pieces: list[bytes]) -> Any:
    """What the client sees and what the loop knows, or what is wrong with the stream."""
    fields = {"instructions": Raw(b'"Mine"')}
    loop = StreamLoop(LoopPlan(RESPONSES, {}, [], (Raw(b"{}"),), frozenset({GET}), client_fields=fields))
    loop.build_request()
    shown: list[bytes] = []
    try:
        shown += map(loop.feed, pieces)
        step = loop.end()
    except UpstreamError as fault:
        return read(shown), fault.message
    shown.append(step.data if isinstance(step, FinishStep) else b"")
    turn = loop._turn
    return read(shown), type(step), loop.usages, turn and (turn.calls, turn.cut_short, turn.usage, turn.id)


def read(shown: list[bytes]) -> list[Any]:
    payloads = map(sse.read_payload, sse.split_events(b"".join(shown)))
    return [orjson.loads(payload or b"null") for payload in payloads]


@given(streams, st.integers(1, 4))
def test_a_stream_is_shown_as_if_every_event_were_read(written: list[bytes], together: int) -> None:
    pieces = [b"".join(written[at : at + together]) for at in range(0, len(written), together)]
    short = run(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(carried, "read_event", lambda event: None)
        patch.setattr(events, "find_pieces", lambda data: None)
        assert run(pieces) == short


START = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta",'
ENDS = [
    b'"delta":"a","sequence_number":7}\n\n',
    b'"delta":"\xc3\xa9 \\" \\n"}\n\n',
    b'"delta":"a"\n\n',
    b'"delta":"a"},{"type":"response.output_text.delta"}\n\n',
    b'"a":[1\n\n',
    b'"b":2]}\n\n',
    b'"type":"response.output_item.added"}\n\n',
    b'"sequence_number":true}\n\n',
    b'"a":1}\r\n\r\n',
    b'"a":1}\nid: 3\n\n',
    b'"a":1}\ndata: {}\n\n',
    b'"a":\n1}\n\n',
]
OTHERS = [
    b'event: response.content_part.added\ndata: {"type":"response.content_part.added","part":{}}\n\n',
    b": ping\n\n",
    b"data: {}\n\n",
]
bits = st.sampled_from([*(START + end for end in ENDS), *OTHERS])


@given(st.lists(bits, max_size=5))
def test_pieces_of_text_are_those_that_the_expression_finds(some: list[bytes]) -> None:
    data = b"".join(some)
    found = TEXT_PIECES.find_run(data)
    assert find_pieces(data) == (found if found is not None and found.size == len(data) else None)


def test_usual_events_take_the_short_way() -> None:
    assert (
        find_pieces(START + b'"delta":"a","sequence_number":7}\n\n' + START + b'"sequence_number":8}\n\n') is not None
    )
    ended = {"id": "r", "status": "completed", "output": [MESSAGE], "usage": {"input_tokens": 1}}
    told = carried.read_event(write({"type": "response.completed", "response": ended}, 3, 0, False))
    assert told.sequence_number == 3
    assert carried.is_answer(told)
