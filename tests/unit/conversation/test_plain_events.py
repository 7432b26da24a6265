"""What is learned from a stream's events saves decoding them, and changes nothing else."""

import json
import random

import pytest

from gateway import sse
from gateway.conversation.dialects.chat import stream_turn
from gateway.conversation.dialects.chat.stream_turn import PlainEvents, find_plain_events

TEXTS = [
    "",
    " word",
    "plain text, 5 %",
    'a "quoted" word',
    "back\\slash",
    "line\nbreak",
    "tab\t",
    "größe",
    "日本",
    "\u2028",
    "\x7f",
]
ODD_EVENTS = [
    b'data: {"choices":[{"index":0,"delta":{"content":"a","tool_calls":[{"index":0}]},"finish_reason":null}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}],"usage":{"total_tokens":1}}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"content":"a\x01"},"finish_reason":null}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"content":"a\xff"},"finish_reason":null}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"content":"a\\"},"finish_reason":null}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"content":"a","tool_calls":[{}],"x":"b"},"finish_reason":null}]}\n\n',
    b'data: {"error":{"message":"no"}}\n\n',
    b"data: [DONE]\n\n",
    b": comment\n\n",
    b"\n\n",
]


def make_event(text: str, spaced: bool = False) -> bytes:
    chunk = {"id": "c", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
    written = json.dumps(chunk, ensure_ascii=False, separators=(", ", ": ") if spaced else (",", ":"))
    return sse.encode_event(written.encode())


@pytest.mark.parametrize("seed", range(20))
def test_what_was_learned_never_changes_what_passes(seed: int) -> None:
    dice = random.Random(seed)
    plain, spaced = PlainEvents(), seed % 3 == 0
    for _ in range(300):
        events = [make_event(dice.choice(TEXTS), spaced) for _ in range(dice.randrange(1, 6))]
        if dice.random() < 0.3:
            events.insert(dice.randrange(len(events) + 1), dice.choice(ODD_EVENTS))
        if dice.random() < 0.2:  # nearly familiar
            at = dice.randrange(len(events))
            events[at] = events[at].replace(*dice.choice([(b'"c"', b'"d"'), (b"null", b'""'), (b"}}", b"}")]))
        data = b"".join(events)
        assert plain.measure(data) == find_plain_events(data), data


def test_events_like_those_before_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = PlainEvents()
    plain.measure(make_event("first"))
    monkeypatch.setattr(stream_turn, "find_plain_events", lambda data: pytest.fail("it was read"))
    data = make_event("") + make_event(" second") + make_event(" third")
    assert plain.measure(data) == len(data)


def test_a_text_in_the_middle_of_a_key_is_learned_as_a_text() -> None:
    plain = PlainEvents()
    event = b'data: {"choices":[],"x\\"content":"a"}\n\n'
    assert plain.measure(event) == len(event)
    for text in (b"b", b'","error":{}', b'b","x":"'):
        other = event.replace(b'"a"', b'"' + text + b'"')
        assert plain.measure(other) == find_plain_events(other)


def test_a_stream_whose_events_all_differ_is_learned_from_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    lessons: list[bytes] = []
    learn = PlainEvents._learn

    def count(self: PlainEvents, event: bytes) -> None:
        lessons.append(event)
        learn(self, event)

    monkeypatch.setattr(PlainEvents, "_learn", count)
    plain = PlainEvents()
    for number in range(50):
        event = make_event("a").replace(b'"c"', b'"%d"' % number)
        assert plain.measure(event) == len(event)
    assert len(lessons) == stream_turn.MAX_LESSONS
