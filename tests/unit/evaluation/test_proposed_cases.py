"""Cases that receipts suggest, and that `gateway eval` can read."""

from collections.abc import AsyncIterator
from typing import Any

import orjson

from gateway.control.yaml_writer import format_yaml
from gateway.domain.receipt import Receipt, ReceiptPage
from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.domain.snapshot import Snapshot
from gateway.evaluation.cases import read_cases
from gateway.evaluation.proposed_cases import propose_cases
from gateway.ids import make_id
from gateway.strict_yaml import parse_yaml


def make_snapshot(**modes: Mode) -> Snapshot:
    resources = {f"c/{name}": make_resource(f"c/{name}", mode) for name, mode in modes.items()}
    return Snapshot("0" * 64, 0, {}, {}, {}, {}, resources)


def make_resource(id: str, mode: Mode) -> Resource:
    texts: dict[str, Any] = {"id": id, "context": "c", "type": "text", "name": id, "description": "", "text": "Text."}
    sets: dict[str, Any] = {"languages": (), "readers": (), "examples": (), "conflict_key": None, "truncate": "none"}
    flags: dict[str, Any] = {"priority": 0, "required": False, "mandatory": False, "data": None}
    return Resource(mode=mode, kind=ResourceKind.REFERENCE, **texts, **sets, **flags)


def make_receipt(*said: str, stored: bool = True, status: str = "ok", **details: Any) -> Receipt:
    messages = [{"role": "user", "content": one} for one in said]
    text = {"text": {"request": orjson.dumps({"messages": messages}).decode(), "answer": ""}} if stored else {}
    summary = orjson.dumps({"profile": None, "prompt": None, "user": None})
    return Receipt(make_id(), "default", status, agent="clerk", summary=summary, details=orjson.dumps(details | text))


def fetch(id: str, left_out: str | None = "below_threshold", failed: bool = False) -> dict[str, Any]:
    return {"name": "get_context_resource", "resource": id, "left_out": left_out, "characters": 5, "failed": failed}


def pick(*ids: str) -> dict[str, Any]:
    return {"injected": [{"id": id, "context": "c", "via": "semantic", "tokens": 1, "truncated": False} for id in ids]}


async def pages(*receipts: Receipt) -> AsyncIterator[ReceiptPage]:
    yield ReceiptPage(list(receipts), None)


async def test_what_was_missed_or_picked_and_shown_is_expected() -> None:
    snapshot = make_snapshot(a=Mode.SEMANTIC, b=Mode.SEMANTIC, c=Mode.ALWAYS)
    shown = [{"id": "c/a", "phrases": 9, "shown": 4}, {"id": "c/b", "phrases": 9, "shown": 0}]
    found = await propose_cases(
        pages(
            make_receipt("Where is it?", tools=[fetch("c/a"), fetch("c/c"), fetch("c/b", failed=True)]),
            make_receipt("First.", "And then?", selection=pick("c/a", "c/b"), overlap=shown),
            make_receipt("Where is it?", tools=[fetch("c/b")]),  # asked before
            make_receipt("Whatever", tools=[fetch("c/b", "over_budget")]),
            make_receipt("Whatever", stored=False, tools=[fetch("c/b")]),
            make_receipt("Whatever", status="error", tools=[fetch("c/b")]),
        ),
        snapshot,
    )
    assert found.cases == [
        {"question": "Where is it?", "expect": ["c/a"], "agent": "clerk"},
        {"question": "And then?", "expect": ["c/a"], "agent": "clerk", "earlier": ["First."]},
    ]
    assert (found.receipts, found.without_text, found.without_evidence) == (5, 1, 1)
    file = read_cases(parse_yaml(format_yaml({"cases": found.cases}), "cases.yaml"), snapshot)
    assert [case.question for case in file.cases] == ["Where is it?", "And then?"]


async def test_a_usage_that_cannot_be_shown_keeps_no_receipt_from_being_read() -> None:
    receipt = make_receipt("Where is it?", tools=[fetch("c/a")])
    usage = b'{"usage":{"total_tokens":%b},' % (b"9" * 400)
    receipt.summary = usage + receipt.summary[1:]
    receipt.details = b'{"turns":[%b"status":200}],' % usage + receipt.details[1:]
    found = await propose_cases(pages(receipt), make_snapshot(a=Mode.SEMANTIC))
    assert [case["question"] for case in found.cases] == ["Where is it?"]


async def test_without_text_nothing_is_proposed_and_it_says_so() -> None:
    receipts = [make_receipt("x", stored=False, tools=[fetch("c/a")]) for _ in range(3)]
    found = await propose_cases(pages(*receipts), make_snapshot(a=Mode.SEMANTIC))
    assert (found.cases, found.without_text) == ([], 3)
