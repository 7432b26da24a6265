"""Receipts as people read them, those included that earlier releases stored with a usage that cannot be shown."""

from typing import Any

import msgspec
import orjson
import pytest

from gateway.domain.receipt import Receipt, ReceiptPage
from gateway.receipts.views import describe_receipt, encode_lines

USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
DEEP = [msgspec.json.decode("[" * levels + "0" + "]" * levels) for levels in (250, 300, 800)]


def make_receipt(usage: Any) -> Receipt:
    """As an earlier release stored it."""
    summary = {"at": "today", "usage": usage, "cost": 0.5}
    turns = [{"upstream": "a", "usage": usage}, {"upstream": "b", "usage": USAGE}, {"upstream": "c", "usage": None}]
    details = {"turns": turns, "tools": []}
    return Receipt("id", "w", "ok", summary=msgspec.json.encode(summary), details=msgspec.json.encode(details))


@pytest.mark.parametrize("total", [10**400, -(10**400), [10**400], *DEEP, [10**310, DEEP[-1]]])
def test_a_stored_usage_that_cannot_be_shown_is_null_and_all_else_is_there(total: Any) -> None:
    shown = describe_receipt(make_receipt(USAGE | {"total_tokens": total}))
    assert (shown["usage"], shown["at"], shown["cost"]) == (None, "today", 0.5)
    assert [(turn["upstream"], turn["usage"]) for turn in shown["turns"]] == [("a", None), ("b", USAGE), ("c", None)]
    assert orjson.loads(orjson.dumps({"items": [shown]})) == {"items": [shown]}


def test_an_enormous_budget_that_a_client_asked_for_is_null() -> None:
    receipt = make_receipt(USAGE)
    receipt.details = b'{"scope":{"budget":%b,"inject":true},"tools":[{"ms":1.5}]}' % (b"9" * 400)
    shown = describe_receipt(receipt)
    assert (shown["scope"], shown["tools"]) == ({"budget": None, "inject": True}, [{"ms": 1.5}])


def test_an_export_goes_on_after_a_usage_that_cannot_be_shown() -> None:
    receipts = [make_receipt(USAGE | {"total_tokens": total}) for total in (8, 10**400, DEEP[1], 8)]
    lines = encode_lines(ReceiptPage(receipts, None)).splitlines()
    assert [orjson.loads(line)["usage"] for line in lines] == [USAGE, None, None, USAGE]


def test_any_other_usage_is_shown_as_it_is() -> None:
    odd = USAGE | {"total_tokens": 1e40, "nested": [[[{"a": None}]]]}
    assert describe_receipt(make_receipt(odd))["usage"] == odd
