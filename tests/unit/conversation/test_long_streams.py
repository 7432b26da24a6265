"""What upstreams send costs time in proportion to its length."""

import time

from gateway.conversation.dialects.chat.calls import ToolCall
from gateway.conversation.dialects.chat.relay import is_done


def measure_done(times: int) -> float:
    text = b'data: {"content":"' + b"[DONE] " * times + b'"}\n\n'
    began = time.process_time()
    assert not is_done(text)
    return time.process_time() - began


def test_a_text_full_of_done_is_read_once() -> None:
    measure_done(1000)
    assert measure_done(80_000) < 40 * max(measure_done(10_000), 0.0005)


def measure_deltas(number: int) -> float:
    call = ToolCall({"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": ""}})
    began = time.process_time()
    for _ in range(number):
        call.add({"function": {"name": "get_weather", "arguments": "x" * 40}})
    return time.process_time() - began


def test_a_name_in_every_delta_costs_the_same_each_time() -> None:
    measure_deltas(100)
    assert measure_deltas(16_000) < 32 * max(measure_deltas(2_000), 0.001)
