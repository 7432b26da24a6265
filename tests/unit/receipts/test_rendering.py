"""What a receipt says, down to what only odd requests bring."""

import asyncio
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.exchange import Exchange, TurnReply
from gateway.domain.injection import Injection
from gateway.domain.memory_budget import MemoryBudget
from gateway.domain.price import ModelPrice
from gateway.domain.principal import ANONYMOUS, Principal
from gateway.domain.receipt_note import NotedReceipt, NotedStart
from gateway.domain.scope import ContextRequest, Scope
from gateway.domain.snapshot import EMPTY_SNAPSHOT, Snapshot
from gateway.ids import make_id, read_id_time
from gateway.receipts.documents import PendingReceipt
from gateway.receipts.notes import QUICK_BYTES
from gateway.receipts.prices import PriceTable
from gateway.receipts.rendering import ReceiptRenderer, read_resource_id
from gateway.receipts.reported import read_answer, read_usage
from gateway.receipts.templates import encode_json
from gateway.receipts.views import describe_receipt
from tests.support.built_injections import build, make_builder

RENDERER = ReceiptRenderer(PriceTable({}), lambda text: text)
POLICIES = "contexts: {a: {resources: {b: {type: text, data: {content: B}}}}}"
USAGE = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
COUNTS = {"prompt_tokens": 3, "completion_tokens": 1}
ENORMOUS = 10**400  # more than any float
DEEP = msgspec.json.decode("[" * 300 + "0" + "]" * 300)
UNSHOWN = [
    COUNTS | {"total_tokens": ENORMOUS},
    COUNTS | {"total_tokens": -ENORMOUS},
    COUNTS | {"total_tokens": DEEP},
    COUNTS | {"total_tokens": msgspec.json.decode('{"a":' * 250 + "0" + "}" * 250)},
    COUNTS | {"padding": "x" * 3000},
]


def make_pending(**request: Any) -> PendingReceipt:
    exchange = Exchange(make_id(), ANONYMOUS, EMPTY_SNAPSHOT)
    exchange.scope = make_scope(**request)
    return PendingReceipt(exchange)


def make_scope(**request: Any) -> Scope:
    return Scope(ContextRequest(**request), None, None, None, None, True, frozenset(), False)


def build_injection(snapshot: Snapshot) -> Injection:
    building = build(make_builder(MemoryBudget(10**6)), snapshot, ContextRequest(), ANONYMOUS, None, "m", "?")
    return asyncio.run(building)


def take_note(renderer: ReceiptRenderer, pending: PendingReceipt) -> NotedReceipt | NotedStart | None:
    """What is noted of an exchange; None: it has to be rendered."""
    taker = renderer.take_notes()
    if not pending.finished:
        return taker.note_start(pending)
    is_noted = taker.note(pending)
    noted = [NotedReceipt(template, note) for template, notes in taker.noted for note in notes]
    assert len(noted) == is_noted
    return noted[0] if noted else None


def test_names_of_the_caller_are_bounded_and_encodable() -> None:
    pending = make_pending(session="s" * 2000, user="\ud800 u", task="t" * 2000)
    receipt = RENDERER.render(pending, finished=False)
    summary = orjson.loads(receipt.summary)
    assert receipt.session == "s" * 512
    assert (summary["user"], summary["task"]) == ("? u", "t" * 512)
    assert receipt.status == "started"


def test_what_cannot_be_encoded_costs_a_receipt_none_of_its_figures() -> None:
    pending = make_pending(task="\ud800")
    pending.exchange.usage = USAGE
    summary = orjson.loads(RENDERER.render(pending, finished=True).summary)
    assert (summary["task"], summary["usage"]) == ("?", USAGE)


def test_a_scope_that_requests_share_is_described_for_each_caller(policies: Callable[[str], Snapshot]) -> None:
    snapshot = policies(POLICIES)
    injection, scope = build_injection(snapshot), make_scope()
    readers = []
    for name in ("ada", "ada", "bob"):
        exchange = Exchange(make_id(), Principal(name, key=name), snapshot, scope=scope, injection=injection)
        receipt = RENDERER.render(PendingReceipt(exchange), finished=True)
        readers.append((orjson.loads(receipt.details)["scope"]["readers"], orjson.loads(receipt.summary)["principal"]))
    assert readers == [(["key:ada"], "ada"), (["key:ada"], "ada"), (["key:bob"], "bob")]


@pytest.mark.parametrize(
    "usage",
    [
        None,
        USAGE,
        {},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 3},
        {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens": True},
        {"prompt_tokens": -1, "completion_tokens": 1e300, "odd": ["\u2028", None]},
        {"prompt_tokens": 2**60, "completion_tokens": 1},
        {"prompt_tokens": 2**60, "completion_tokens": 1, "total_tokens": 10**40},
        {"prompt_tokens": 1, "input_tokens_details": {"cached_tokens": ENORMOUS}, "completion_tokens": ENORMOUS},
        *UNSHOWN,
    ],
)
@pytest.mark.parametrize("price", [None, ModelPrice(1.0, 0.3, 0.1)])
def test_what_is_noted_says_the_same_as_what_is_rendered(
    policies: Callable[[str], Snapshot], usage: dict[str, Any] | None, price: ModelPrice | None
) -> None:
    snapshot = policies(POLICIES)
    injection, scope = build_injection(snapshot), make_scope()
    renderer = ReceiptRenderer(PriceTable({} if price is None else {"m": price}), lambda text: text)
    noted = []
    for _ in range(3):  # the first two make the template
        exchange = Exchange(make_id(), ANONYMOUS, snapshot, model="m", scope=scope, injection=injection)
        exchange.times = [exchange.began + 0.001 * step for step in range(1, 5)]
        pending = PendingReceipt(exchange)
        begun, started = take_note(renderer, pending), renderer.render(pending, finished=False)
        exchange.upstream, exchange.turns, exchange.usage = "up", 1, usage
        exchange.replies = [TurnReply("up", 200, 0.0123)]
        exchange.http_status, exchange.seconds, pending.finished = 200, 0.0345678, True
        ended, finished = take_note(renderer, pending), renderer.render(pending, finished=True)
        if begun is not None:
            assert begun.render() == started
        if ended is not None:
            assert ended.render() == finished
        noted.append((begun is not None, ended is not None))
    is_shown = usage not in UNSHOWN and ENORMOUS not in (usage or {}).values()
    assert noted == [(False, False), (False, False), (True, is_shown)]


def test_what_is_single_or_has_a_long_reply_is_not_noted(policies: Callable[[str], Snapshot]) -> None:
    snapshot, renderer = policies(POLICIES), ReceiptRenderer(PriceTable({}), lambda text: text)
    injection, scope = build_injection(snapshot), make_scope()

    def make_ended(**what: Any) -> PendingReceipt:
        exchange = Exchange(make_id(), ANONYMOUS, snapshot, model="m", scope=scope, injection=injection, upstream="up")
        exchange.replies = [TurnReply("up", 200, 0.0123)]
        return PendingReceipt(exchange, finished=True, **what)

    renderer.render(make_ended(), finished=True)
    renderer.render(make_ended(), finished=True)
    assert take_note(renderer, make_ended()) is not None
    assert take_note(renderer, make_ended(single=True)) is None
    assert take_note(renderer, make_ended(body=b" " * (QUICK_BYTES + 1))) is None


@pytest.mark.parametrize("usage", [*UNSHOWN, COUNTS | {"total_tokens": 10**4300}])  # more digits than Python writes
def test_of_a_usage_that_cannot_be_shown_the_usual_counts_are_kept(usage: dict[str, Any]) -> None:
    pending = make_pending()
    pending.exchange.usage, pending.exchange.usages = usage, [usage]
    pending.exchange.replies = [TurnReply("up", 200, 0.1)]
    shown = describe_receipt(RENDERER.render(pending, finished=True))
    assert (shown["usage"], shown["turns"][0]["usage"]) == (COUNTS, COUNTS)
    assert orjson.loads(orjson.dumps({"items": [shown]})) == {"items": [shown]}


def test_the_usual_counts_are_kept_in_the_words_of_the_upstream() -> None:
    pending = make_pending()
    pending.exchange.usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": ENORMOUS}
    shown = describe_receipt(RENDERER.render(pending, finished=True))
    assert shown["usage"] == {"input_tokens": 5, "output_tokens": 2}


def test_enormous_counts_have_a_price_like_any_others() -> None:
    renderer = ReceiptRenderer(PriceTable({"m": ModelPrice(1.0, 2.0)}), lambda text: text)
    pending = make_pending()
    pending.exchange.model = "m"
    pending.exchange.usage = {"prompt_tokens": ENORMOUS, "completion_tokens": 1, "total_tokens": ENORMOUS}
    shown = describe_receipt(renderer.render(pending, finished=True))
    assert (shown["usage"], shown["cost"]) == ({"completion_tokens": 1}, 2e-06)


def test_an_exchange_that_is_being_answered_is_rendered_and_not_noted(policies: Callable[[str], Snapshot]) -> None:
    snapshot = policies(POLICIES)
    injection, scope = build_injection(snapshot), make_scope()
    renderer = ReceiptRenderer(PriceTable({}), lambda text: text)
    exchange = Exchange(make_id(), ANONYMOUS, snapshot, model="m", scope=scope, injection=injection)
    exchange.times = [exchange.began] * 4
    pending = PendingReceipt(exchange)
    for _ in range(3):
        renderer.render(pending, finished=False)
    assert take_note(renderer, pending) is not None
    exchange.replies = [TurnReply("up", 200, 0.1)]
    assert take_note(renderer, pending) is None


def test_a_receipt_says_when_it_began() -> None:
    pending = make_pending()
    summary = orjson.loads(RENDERER.render(pending, finished=True).summary)
    began = datetime.fromisoformat(summary["at"])
    assert began.timestamp() == pytest.approx(read_id_time(pending.exchange.id), abs=0.001)


def test_turns_that_report_nothing_come_after_those_that_did() -> None:
    pending = make_pending()
    pending.exchange.replies = [TurnReply("a", 200, 0.1), TurnReply("b", 500, 0.2)]
    pending.exchange.usages = [USAGE]
    receipt = RENDERER.render(pending, finished=True)
    turns = orjson.loads(receipt.details)["turns"]
    assert [(turn["upstream"], turn["status"], turn["usage"]) for turn in turns] == [
        ("a", 200, USAGE),
        ("b", 500, None),
    ]
    assert orjson.loads(receipt.summary)["usage"] == USAGE


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [('{"resource_id":"a/b"}', "a/b"), ("", None), ("[]", None), ("{", None), ('{"resource_id":5}', None)],
)
def test_a_tool_s_resource_is_read_from_whatever_the_model_wrote(arguments: str, expected: str | None) -> None:
    assert read_resource_id(arguments) == expected


def test_lone_surrogates_become_question_marks_wherever_they_are() -> None:
    assert orjson.loads(encode_json({"a\ud800": ["\udfff", 1, ("b",)]})) == {"a?": ["?", 1, ["b"]]}


STREAM = (
    b'data: {"choices":[{"delta":{"content":"Hel"}}],"usage":null}\n\n'
    b'data: {"choices":[{"delta":{"content":"lo"}}]}\n\n'
    b'data: {"choices":[],"usage":{"total_tokens":4}}\n\ndata: [DONE]\n\n'
)


@pytest.mark.parametrize(
    ("reply", "usage", "answer"),
    [
        (STREAM, {"total_tokens": 4}, "Hello"),
        (STREAM.replace(b"\n", b"\r\n"), {"total_tokens": 4}, "Hello"),
        (b'{"choices":[{"message":{"content":"Hi"}}],"usage":{"total_tokens":1}}', {"total_tokens": 1}, "Hi"),
        (b'{"choices":[{"message":{"content":[{"type":"text","text":"Hi"},{}]}}]}', None, "Hi"),
        (b'{"choices":[{"message":null}]}', None, ""),
        (b'{"choices":"none","usage":5}', None, ""),
        (b"<html>", None, ""),
        (b"", None, ""),
        (b'event":1}\n\n' + STREAM, {"total_tokens": 4}, "Hello"),
    ],
)
def test_replies_are_read_as_far_as_they_can_be(reply: bytes, usage: dict[str, int] | None, answer: str) -> None:
    assert (read_usage(reply), read_answer(reply)) == (usage, answer)


TEXTS = st.text(alphabet='ab"\\{}[]:,usage é', max_size=12) | st.sampled_from(['"usage":{', ',"usage":{'])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["usage", "a", '\\"usage', 'x"usage', "é"]), inner, max_size=3)
    ),
    max_leaves=8,
)
REPLIES = st.dictionaries(st.sampled_from(["usage", "choices", '\\"usage', "b"]), VALUES, max_size=4)


@given(REPLIES, st.booleans())
def test_usage_is_read_wherever_it_stands_in_a_reply(reply: dict[str, Any], spaced: bool) -> None:
    written = json.dumps(reply, separators=None if spaced else (",", ":"), ensure_ascii=False).encode()
    usage = reply.get("usage")
    assert read_usage(written) == (usage if isinstance(usage, dict) and usage else None)


@pytest.mark.parametrize(
    ("reply", "usage"),
    [
        (b'{"choices":[],"usage":{"a":1},"service_tier":"default"}', {"a": 1}),
        (b'{"choices":[],"usage" : {"a":1}}', {"a": 1}),
        (b'{"usage":{"a":1},"x":{"usage":{"a":2}}}', {"a": 1}),
        (b'{"usage":{"a":1},"x":[{"usage":{"a":2}}]}', {"a": 1}),
        (b'{"usage":{"a":1},"text":"\\"usage\\":{\\"a\\":2}}"}', {"a": 1}),
        (b'{"usage":{"a":1},"b\\"usage":{"a":2}}', {"a": 1}),
        (b'{"usage":{"a":1},"usage":{"a":2}}', {"a": 2}),
        (b'{"x":{"usage":{"a":2}}}', None),
        (b'{"message":{"usage":{"a":2}}}', {"a": 2}),
        (b'{"usage":{}}', None),
        (b'{"usage":null}', None),
    ],
)
def test_only_the_reply_s_own_usage_counts(reply: bytes, usage: dict[str, int] | None) -> None:
    assert read_usage(reply) == usage
