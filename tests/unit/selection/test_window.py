"""What a model's window leaves for context."""

import pytest

from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.domain.agent import Agent, ModelDefaults
from gateway.domain.chat import ChatRequest
from gateway.domain.scope import ContextRequest, Scope
from gateway.selection.window import STEP, WindowTable, fit_window, read_output_limit


def scope(max_tokens: int | None = None) -> Scope:
    agent = Agent("a", "A", defaults=ModelDefaults(max_tokens=max_tokens))
    return Scope(ContextRequest(), agent, None, None, None, True, frozenset(), False)


def request(words: int, more: str = "") -> ChatRequest:
    return CHAT.decode(b'{"messages":[{"role":"user","content":"%s"}]%s}' % (b"word " * words, more.encode()))


def count(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("gpt-4", 8192),
        ("openai/GPT-4o-mini", 128_000),
        ("gpt-4.1-nano", 1_047_576),
        ("mine", 9000),
        ("mine-2", 10_000),
        ("gpt-4-turbo", 20_000),
        ("unheard-of", None),
    ],
)
def test_the_longest_name_that_fits_wins_and_the_configuration_over_all(model: str, window: int | None) -> None:
    table = WindowTable({"mine": 9000, "mine*": 10_000, "gpt-4-turbo*": 20_000})
    assert [table.find(model), table.find(model)] == [window, window]


def test_a_budget_shrinks_to_what_the_window_leaves() -> None:
    assert fit_window(request(100), scope(), 8192, 4000, count) == 4000
    assert fit_window(request(5000), scope(), 8192, 4000, count) == (8192 - 5001) // STEP * STEP
    assert fit_window(request(9000), scope(), 8192, 4000, count) == 0


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_room_is_left_for_the_answer(field: str) -> None:
    asked = request(10, f', "{field}": 7000')
    assert fit_window(asked, scope(), 8192, 4000, count) == 1024
    assert fit_window(request(10), scope(7000), 8192, 4000, count) == 1024
    assert fit_window(asked, scope(1), 8192, 4000, count) == 1024, "what the request says wins"


def test_what_surely_fits_is_not_counted() -> None:
    def fail(text: str) -> int:
        raise AssertionError("counted")

    assert fit_window(request(100), scope(), 8192, 4000, fail) == 4000


@pytest.mark.parametrize("limit", ["1e999", "-1", '"5"', "null", "{}", "[" * 400 + "]" * 400])
def test_a_limit_that_is_no_number_of_tokens_is_the_upstreams_business(limit: str) -> None:
    table, asked = WindowTable({"m": 9000}), request(1500, f', "max_tokens": {limit}')
    assert read_output_limit(asked, scope()) == 0
    assert read_output_limit(asked, scope(70)) == 70
    assert table.may_be_exceeded("m", asked, scope(), 4000)
    room = table.measure_room("m", scope(), 0)
    assert room is not None
    assert room.certainly_fits(asked)
