"""A turn with more calls of our tools than are run."""

from typing import Any

import msgspec
import orjson

from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.conversation.loop import MAX_OWN_CALLS, NOT_RUN, NextTurnStep, RunToolsStep
from gateway.conversation.reply_loop import ReplyLoop
from gateway.conversation.turn import LoopPlan, add_usage
from gateway.domain.tool_result import ToolResult

OWN = "get_context_resource"


def make_reply(number: int) -> bytes:
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": OWN, "arguments": "{}"}} for n in range(number)]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    return orjson.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]})


def test_the_model_is_told_of_calls_that_were_not_run() -> None:
    loop = ReplyLoop(LoopPlan(CHAT, {}, [], (), frozenset({OWN})))
    loop.build_request()
    step = loop.take(make_reply(MAX_OWN_CALLS + 2))
    assert isinstance(step, RunToolsStep)
    assert len(step.calls) == MAX_OWN_CALLS
    assert loop.resume([ToolResult("result")] * MAX_OWN_CALLS) == NextTurnStep()
    _, *results = msgspec.json.decode(loop.build_request())["messages"]
    assert [one["content"] for one in results] == ["result"] * MAX_OWN_CALLS + [NOT_RUN.text] * 2
    assert results[-1]["tool_call_id"] == f"c{MAX_OWN_CALLS + 1}"


def test_a_usage_object_of_any_depth_can_be_added() -> None:
    deep: dict[str, Any] = {"tokens": 1}
    for _ in range(900):
        deep = {"inner": deep, "tokens": 1}
    total = add_usage(deep, deep)
    assert (total["tokens"], total["inner"]["tokens"]) == (2, 2)
