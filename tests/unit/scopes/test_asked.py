"""Headers and the `context` object become one Asked."""

import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from msgspec import Raw
from msgspec.structs import replace

from gateway.domain.agent import SelectionSettings, Thresholds
from gateway.domain.scope import ContextRequest, RequestItem
from gateway.errors import InvalidRequest
from gateway.scopes.context_request import MAX_BUDGET, ContextObject, read_context_request


def asked(*headers: tuple[str, str], context: Any = None) -> ContextRequest:
    pairs = [(f"x-context-{name}".encode(), value.encode()) for name, value in headers]
    return read_context_request(pairs, None if context is None else Raw(orjson.dumps(context)))


def refused(*headers: tuple[str, str], context: Any = None) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        asked(*headers, context=context)
    assert (caught.value.status, caught.value.code) == (400, "invalid_request")
    return caught.value


@pytest.mark.parametrize("name", ["session", "agent", "profile", "prompt", "content", "task", "user", "language"])
def test_every_header_can_be_said_in_the_body_too_and_the_header_wins(name: str) -> None:
    assert getattr(asked((name, "header")), name) == "header"
    assert getattr(asked(context={name: "body"}), name) == "body"
    assert getattr(asked((name, "header"), context={name: "body"}), name) == "header"


def test_a_request_has_one_of_four_types() -> None:
    assert asked(("type", "assist")).type == "assist"
    assert asked(context={"type": "chat"}).type == "chat"
    assert asked(("type", "search"), context={"type": "chat"}).type == "search"
    assert refused(("type", "poem")).param == "x-context-type"
    assert refused(context={"type": "poem"}).param == "context.type"


def test_hints_say_a_period_in_dates_or_moments_and_without_an_offset_in_utc() -> None:
    period = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00"}
    hints = asked(context={"hints": {"time_range": period}}).hints
    assert (hints.since, hints.until) == (1767225600.0, 1767312000.0)
    assert refused(context={"hints": {"time_range": {"start": "yesterday"}}}).param == "context.hints.time_range.start"


def test_values_are_percent_decoded_once_as_utf_8() -> None:
    assert asked(("content", "caf%C3%A9%2Fmen%25C3")).content == "café/men%C3"


def test_bytes_that_are_no_utf_8_are_refused() -> None:
    assert refused(("session", "%ff")).param == "x-context-session"


def test_an_empty_header_is_an_absent_one() -> None:
    assert asked(("agent", ""), context={"agent": "editor"}).agent == "editor"
    assert asked(("agent", "%20")).agent is None
    assert asked(("budget", "")).budget is None


def test_a_repeated_header_is_refused_even_with_the_same_value() -> None:
    assert refused(("agent", "editor"), ("agent", "editor")).param == "x-context-agent"


def test_an_unknown_header_is_refused_and_named() -> None:
    fault = refused(("agnet", "editor"))
    assert fault.param == "x-context-agnet"
    assert fault.message == "There is no header x-context-agnet. Did you mean x-context-agent?"
    assert refused(("qqqqqq", "editor")).message == "There is no header x-context-qqqqqq."
    assert len(refused(("q" * 9000, "editor")).message) < 200


@pytest.mark.parametrize("name", ["receipt", "injected", "tokens", "degraded", "snapshot", "suggested-content", "key"])
def test_names_that_are_only_sent_are_ignored_inbound(name: str) -> None:
    assert asked((name, "1"), (name, "2")) == ContextRequest()


def test_include_and_exclude_are_comma_lists_and_may_be_repeated() -> None:
    found = asked(("include", "a/b, c/d"), ("include", "e/f,a/b"), ("exclude", "g/h,,"), ("exclude", "i/j"))
    assert found.include == ("a/b", "c/d", "e/f")
    assert found.exclude == {"g/h", "i/j"}


def test_lists_of_the_body_are_arrays_and_give_way_to_headers() -> None:
    body = {"include": ["a/b"], "exclude": ["c/d"]}
    assert (asked(context=body).include, asked(context=body).exclude) == (("a/b",), {"c/d"})
    assert asked(("include", "e/f"), context=body).include == ("e/f",)


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("1500", 1500), ("007", 7)])
def test_a_budget_is_a_whole_number(text: str, number: int) -> None:
    assert asked(("budget", text)).budget == number


def test_a_budget_may_be_larger_than_any_budget() -> None:
    assert (asked(("budget", "9" * 5000)).budget or 0) > 10**15
    context = Raw(b'{"budget":%b}' % (b"9" * 400))
    assert read_context_request([], context).budget == MAX_BUDGET


@pytest.mark.parametrize("text", ["-1", "1.5", "+3", "many", "１", "1e3"])
def test_anything_else_is_no_budget(text: str) -> None:
    assert refused(("budget", text)).param == "x-context-budget"


@pytest.mark.parametrize("value", [-1, 1.5, "5", True])
def test_a_budget_of_the_body_is_a_whole_number_too(value: Any) -> None:
    assert refused(context={"budget": value}).param == "context.budget"


def test_inject_is_on_or_off_in_both_places_and_the_header_wins() -> None:
    assert (asked().inject, asked(("inject", "on")).inject, asked(("inject", "off")).inject) == (True, True, False)
    assert asked(context={"inject": "off"}).inject is False
    assert asked(("inject", "on"), context={"inject": "off"}).inject is True
    assert refused(("inject", "OFF")).param == "x-context-inject"
    assert refused(context={"inject": False}).param == "context.inject"


def test_an_unknown_key_of_the_body_is_refused_and_named() -> None:
    assert refused(context={"agnet": "editor"}).param == "context.agnet"
    assert refused(context={"selection": {"depth": 3}}).param == "context.selection.depth"
    assert "kinds.rule" in str(refused(context={"selection": {"kinds": {"rule": {}}}}).param)
    assert "kinds.tool.preset" in str(refused(context={"selection": {"kinds": {"tool": {"preset": "normal"}}}}).param)


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"agnet": "editor"}, "context.agnet: is not a known key; did you mean 'agent'?"),
        ({"hints": {"prioritise_types": []}}, "did you mean 'prioritize_types'?"),
        ({"items": [{"name": "Booking", "txt": "x"}]}, "context.items.0.text: is required."),
        ({"agent": 5}, "context.agent: input should be a valid string."),
        ("editor", "context: must be a mapping."),
    ],
)
def test_a_fault_in_the_body_is_told_in_words_for_its_author(context: Any, message: str) -> None:
    assert refused(context=context).message.endswith(message)


@pytest.mark.parametrize("context", [5, "editor", [], True])
def test_a_context_must_be_an_object(context: Any) -> None:
    assert refused(context=context).param == "context"


def test_a_context_of_null_is_none() -> None:
    assert read_context_request([], Raw(b"null")) == ContextRequest()


def test_a_key_of_null_is_absent_whatever_it_would_hold() -> None:
    for name in ContextObject.model_fields:
        assert read_context_request([], Raw(b'{"%b":null}' % name.encode())) == ContextRequest()
    large = b'{"include":null,"items":[{"name":"a","text":"%b"}],"vars":null}' % (b"x" * 70_000)
    assert read_context_request([], Raw(large)).include == ()
    with pytest.raises(InvalidRequest) as refused:
        read_context_request([], Raw(b'{"inclde":null}'))
    assert refused.value.param == "context.inclde"


def test_the_body_may_say_more_than_headers_can() -> None:
    found = asked(
        context={
            "selection": {"preset": "normal", "top_n": 3},
            "refs": {"chapter": "12"},
            "vars": {"who": "buyers", "count": 3, "ratio": 0.5, "formal": True},
            "hints": {"prioritize_types": ["page"], "max_depth": 2},
            "items": [{"name": "Draft", "text": "Once upon"}],
        }
    )
    assert found.selection == SelectionSettings("normal", Thresholds(top_n=3))
    assert found.refs == {"chapter": "12"}
    assert found.vars == {"who": "buyers", "count": "3", "ratio": "0.5", "formal": "true"}
    assert (found.hints.prioritize_types, found.hints.max_depth) == (("page",), 2)
    assert found.items == (RequestItem("Draft", "Once upon"),)


def test_a_kind_of_resource_may_have_thresholds_of_its_own() -> None:
    found = asked(context={"selection": {"top_n": 5, "kinds": {"tool": {"top_n": 3}}}}).selection
    assert (found.get_for_kind("tool").top_n, found.get_for_kind("reference").top_n) == (3, 5)


def test_an_error_names_the_place_where_a_thing_was_said() -> None:
    found = asked(("agent", "editor"), context={"profile": "writing"})
    assert (found.where("agent"), found.where("profile")) == ("x-context-agent", "context.profile")


MANY = 300_000
LARGE: dict[str, Callable[[], Any]] = {  # made when they are needed: all tests would carry them along
    "include": lambda: {"include": [f"c/r{number}" for number in range(MANY)]},
    "pin": lambda: {"pin": [f"c/r{number}" for number in range(MANY)], "session": "s"},
    "contexts": lambda: {"contexts": [""] * MANY},
    "exclude": lambda: {"exclude": [1] * MANY},
    "items": lambda: {"items": [{}] * MANY},
    "vars": lambda: {"vars": {f"v{number}": [] for number in range(MANY)}},
    "hints": lambda: {"hints": {"include": [1] * MANY}},
    "hint names": lambda: {"hints": {f"h{number}": 1 for number in range(MANY)}},
    "kinds": lambda: {"selection": {"kinds": {f"k{number}": 1 for number in range(MANY)}}},
    "names": lambda: {f"key{number}": 1 for number in range(MANY)},
}


def time_refusal(body: bytes, match: str | None = None) -> float:
    """The CPU seconds that a refusal takes; of a few, since what else the machine does makes some of them slower."""
    spent = []
    for _ in range(3):
        began = time.thread_time()
        with pytest.raises(InvalidRequest, match=match):
            read_context_request((), Raw(body))
        spent.append(time.thread_time() - began)
    return min(spent)


@pytest.mark.parametrize("name", LARGE)
def test_more_entries_than_anybody_needs_are_refused_before_they_are_looked_at(name: str) -> None:
    """It happens on the event loop: with a fault for each entry it took seconds, in which nobody was answered."""
    refused = r"more than 1000 entries|larger than \d+ bytes|could not be parsed"
    assert time_refusal(orjson.dumps(LARGE[name]()), refused) < 0.25


NESTED = b'{"x":1},' * 200_000 + b"0"
NEVER_VALID: dict[str, Callable[[], bytes]] = {
    "vars": lambda: b'{"vars":{"a":{"b":[' + NESTED + b"]}}}",
    "refs": lambda: b'{"refs":{"a":[[' + NESTED + b"]]}}",
    "hints": lambda: b'{"hints":{"a":{"b":[' + NESTED + b"]}}}",
    "item": lambda: b'{"items":[{"name":"a","text":[' + NESTED + b"]}]}",
    "items": lambda: b'{"items":[' + b'{"name":"a","text":""},' * 70_000 + b'{"name":"a","text":""}]}',
    "many vars": lambda: b'{"vars":{' + b",".join(b'"%d":1' % number for number in range(200_000)) + b"}}",
    "long var": lambda: b'{"vars":{"a":"' + b"x" * 1_100_000 + b'"}}',
    "unknown": lambda: b'{"nothing":[' + NESTED + b"]}",
}


@pytest.mark.parametrize("name", NEVER_VALID)
def test_nothing_of_a_large_object_is_decoded_that_could_not_be_valid(name: str) -> None:
    assert time_refusal(NEVER_VALID[name]()) < 0.15  # each of them took three times as long, in proportion to its size


def test_of_a_key_that_is_written_twice_only_the_last_is_decoded() -> None:
    spent = []
    for _ in range(3):
        began = time.thread_time()
        read = read_context_request((), Raw(b'{"vars":{"a":{"b":[' + NESTED + b']}},"vars":{"a":"b"}}'))
        spent.append(time.thread_time() - began)
    assert (read.vars, min(spent) < 0.15) == ({"a": "b"}, True)


def test_a_large_object_means_the_same_as_a_small_one() -> None:
    items = [{"name": f"Part {number}", "text": "long " * 400} for number in range(100)]
    context = {"agent": "editor", "vars": {"a": "x", "n": 1, "f": 1.5, "on": True}, "include": ["a/b"], "items": items}
    read = read_context_request((), Raw(orjson.dumps(context)))
    small = read_context_request((), Raw(orjson.dumps({**context, "items": []})))
    assert len(read.items) == 100
    assert replace(read, items=()) == small


def test_an_unknown_key_is_named_however_large_the_object_is() -> None:
    items = [{"name": "Long", "text": "long " * 20_000}]
    for more in ({}, {"items": items}):
        with pytest.raises(InvalidRequest, match=r"context\.agnet: .*agent") as refused:
            read_context_request((), Raw(orjson.dumps({**more, "agnet": "editor"})))
        assert refused.value.param == "context.agnet"
    with pytest.raises(InvalidRequest, match=r"could not be parsed") as refused:
        read_context_request((), Raw(orjson.dumps({"items": [{"name": "Long", "text": "long " * 20_000, "more": 1}]})))
    assert refused.value.param == "context"


def test_a_list_in_a_header_is_bounded_too() -> None:
    with pytest.raises(InvalidRequest, match="more than 1000 entries"):
        read_context_request([(b"x-context-include", b"a," * 1001)], None)
    assert len(read_context_request([(b"x-context-include", b"a,b" * 400)], None).include) > 1
