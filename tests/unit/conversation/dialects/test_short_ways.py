"""What is read or written in one pass is what the longer way makes of it, whatever is sent."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from gateway.conversation.dialects.cache_marker import SHORT, choose_marker
from gateway.conversation.dialects.chat.placement import surround_content
from gateway.conversation.dialects.messages import placement, tools
from gateway.conversation.dialects.messages import reply as messages
from gateway.conversation.dialects.responses import reply as responses
from gateway.conversation.dialects.responses.echoed import EchoedFields
from gateway.conversation.dialects.responses.items import decode_items, decode_object
from gateway.conversation.turn import Turn
from gateway.domain.chat import OutgoingBody
from gateway.domain.json_text import BLANK_LINE
from gateway.injection.tools import PLAIN_TOOLS
from gateway.selection.window import WindowTable, fit_window

OWN = frozenset({"get_context_resource"})
texts = st.text(alphabet='ab\n"é\\ ', max_size=6)
values: Any = st.one_of(st.none(), st.integers(-3, 3), st.booleans(), texts, st.just([]), st.just({"a": 1}))
usages = st.one_of(values, st.fixed_dictionaries({"input_tokens": st.integers(0, 9)}))
blocks = st.one_of(
    values,
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "thinking", "tool_use", 1])},
        optional={
            "text": st.one_of(texts, values),
            "name": st.sampled_from([*OWN, "theirs"]),
            "id": texts,
            "input": values,
        },
    ),
)
items = st.one_of(
    values,
    st.fixed_dictionaries(
        {"type": st.sampled_from(["message", "reasoning", "function_call", "web_search_call", None])},
        optional={"id": st.one_of(texts, values), "content": values, "name": texts, "role": values},
    ),
)
ECHOES = {"instructions": st.one_of(texts, st.none()), "tools": values, "tool_choice": values}


def fields(entries: Any, name: str) -> Any:
    optional = {name: st.one_of(st.lists(entries, max_size=3), values), "usage": usages, "id": values, **ECHOES}
    return st.fixed_dictionaries({}, optional={**optional, "stop_reason": st.just("max_tokens"), "status": values})


def describe(turn: Turn) -> dict[str, Any]:
    names = ("calls", "text", "cut_short", "usage", "id", "gave_up")
    return {name: getattr(turn, name) for name in names}


def read_slowly_message(body: bytes) -> Turn:
    top = messages._decode_object(body)
    read = [messages.ShownBlock(raw, messages._decode_block(raw)) for raw in messages._decode_raws(top["content"])]
    return messages.read_turn(read, top, OWN)


def read_slowly_response(body: bytes) -> Turn:
    top = decode_object(body)
    return responses.make_turn(top, responses.read_output(decode_items(top["output"]), OWN))


@given(fields(blocks, "content"), st.booleans())
def test_a_message_that_calls_nothing_is_read_as_any_other(told: dict[str, Any], spaced: bool) -> None:
    body = json.dumps(told, indent=1 if spaced else None, ensure_ascii=spaced).encode()
    answer = messages.read_answer(body)
    if answer is not None:
        slow = read_slowly_message(body)
        assert (describe(answer), answer.message) == (describe(slow), slow.message)
        assert not slow.calls


@given(fields(items, "output"), st.booleans())
def test_a_response_that_calls_nothing_is_read_as_any_other(told: dict[str, Any], spaced: bool) -> None:
    body = json.dumps(told, indent=1 if spaced else None, ensure_ascii=spaced).encode()
    answer = responses.read_answer(body)
    if answer is not None:
        fast, slow = responses.make_answer_turn(answer), read_slowly_response(body)
        assert describe(fast) == describe(slow)
        assert decode_items(fast.message) == decode_items(slow.message)
        echoed = EchoedFields({"instructions": Raw(b'"Mine"')})
        assert echoed.restore_read(body, answer) == echoed.restore_body(body)


MESSAGE = b'{"content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":{"output_tokens":1}}'
RESPONSE = b'{"id":"r","status":"completed","output":[{"type":"message","content":[]}],"usage":{"total_tokens":1}}'


def test_usual_answers_take_the_short_way() -> None:
    answer = messages.read_answer(MESSAGE)
    assert answer is not None
    assert (answer.text, answer.usage) == ("Hi", {"output_tokens": 1})
    assert responses.read_answer(RESPONSE) is not None


@pytest.mark.parametrize("broken", [b'"\xff"', b"[", b"", b'"\\x"'])
def test_what_is_broken_takes_the_long_way(broken: bytes) -> None:
    assert messages.read_answer(MESSAGE.replace(b'"end_turn"', broken)) is None
    assert messages.read_answer(broken) is None
    assert responses.read_answer(RESPONSE.replace(b'"completed"', broken)) is None
    assert responses.read_answer(broken) is None


pieces = st.text(alphabet="st\\n", max_size=8).map(lambda text: json.dumps(text)[1:-1].encode())
systems = st.one_of(
    st.none(), st.just(b"null"), pieces.map(lambda one: b' "' + one + b'"'), st.just(b'[{"type":"text"}]')
)


@given(systems, pieces, pieces.filter(bool), pieces)
def test_a_system_text_is_marked_as_if_it_were_written_first(
    system: bytes | None, before: bytes, stable: bytes, volatile: bytes
) -> None:
    raw, blocks = None if system is None else Raw(system), (stable, volatile)
    fast = placement.write_marked(raw, before, blocks, SHORT)
    if fast is not None:
        written = surround_content(raw, before, BLANK_LINE.join(filter(None, blocks)))
        assert bytes(fast) == bytes(placement.mark_stable(written, stable, SHORT))


def test_a_usual_system_text_is_marked_at_once() -> None:
    assert placement.write_marked(Raw(b'"Be kind."'), b"Ours.", (b"--- Context ---", b"More."), SHORT) is not None
    assert placement.write_marked(Raw(b'"s: --- Context ---"'), b"", (b"--- Context ---",), SHORT) is None


MARKED = b'{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}'


@given(
    st.lists(
        st.sampled_from([b'{"role":"user","content":"x"}', b'{"role":"user","content":[' + MARKED + b"]}"]), max_size=6
    ),
    st.sampled_from([b'"x"', b"[" + MARKED + b"]"]),
    st.sampled_from([None, b"null", b'{"type":"ephemeral","ttl":"1h"}']),
)
def test_the_marker_is_the_same_where_nobody_else_set_any(
    said: list[bytes], system: bytes, whole: bytes | None
) -> None:
    given: dict[str, Any] = {"model": "m", "system": Raw(system)}
    if whole is not None:
        given["cache_control"] = Raw(whole)
    outgoing = OutgoingBody(given, [Raw(one) for one in said], False)
    before = [value for value in given.values() if isinstance(value, Raw)]
    assert placement.find_marker(outgoing) == choose_marker(given, before, outgoing.messages)


def test_tools_are_written_once_for_the_same_schemas_and_anew_for_others() -> None:
    schemas = PLAIN_TOOLS.schemas
    written = tools.write_tools(schemas)
    assert tools.write_tools(schemas) is written
    assert tools.write_tools(list(schemas)) == written
    assert tools.write_tools(schemas[:1]) == written[:1]
    for _ in range(200):  # of sets that are gone, nothing is taken for another one's
        assert tools.write_tools((schemas[1],)) == written[1:]


class _Request:
    def __init__(self, size: int, limit: Any) -> None:
        self.raw = b"x" * size
        self.fields = {} if limit is None else {"max_tokens": Raw(msgspec.json.encode(limit))}

    def get(self, name: str) -> Any:
        return msgspec.json.decode(self.fields[name]) if name in self.fields else None


class _Scope:
    model_defaults = ()


@given(
    st.integers(0, 20_000), st.one_of(st.none(), st.integers(-1, 9000), st.just("x")), st.integers(0, 9000),
    st.sampled_from(["gpt-4", "claude-3", "unknown"]),
)  # fmt: skip
def test_a_budget_that_fits_by_its_bytes_is_never_cut(size: int, limit: Any, budget: int, model: str) -> None:
    windows, request, scope = WindowTable(), _Request(size, limit), _Scope()
    if not windows.may_be_exceeded(model, request, scope, budget):  # type: ignore[arg-type]
        window = windows.find(model)
        cut = window is not None and (size + budget > 8192 or limit is not None)
        assert not cut or fit_window(request, scope, window, budget, len) == budget  # type: ignore[arg-type]
