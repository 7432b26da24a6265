"""Receipts as people and programs read them."""

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import orjson

from gateway.domain.receipt import Receipt, ReceiptFilter, ReceiptPage
from gateway.receipts.usage import encode_usage
from gateway.stores.protocols import ReceiptStore

EXPORT_PAGE = 200


def describe_receipt(receipt: Receipt) -> dict[str, Any]:
    """The fields of a receipt, with its details if they were read."""
    return {
        "id": receipt.id,
        "status": receipt.status,
        "workspace": receipt.workspace,
        "session": receipt.session,
        "agent": receipt.agent,
        "content": receipt.content,
        **read_fields(receipt.summary),
        **read_fields(receipt.details),
    }


def read_fields(raw: bytes) -> dict[str, Any]:
    """An object of a receipt; what earlier releases stored although it cannot be shown is null."""
    try:
        return drop_unshown_usage(orjson.loads(raw or b"{}"))
    except orjson.JSONDecodeError:  # a number beyond all floats
        fields: dict[str, Any] = drop_enormous(drop_unshown_usage(msgspec.json.decode(raw)))
        return fields


def drop_unshown_usage(fields: dict[str, Any]) -> dict[str, Any]:
    for one in (fields, *fields.get("turns", ())):
        if one.get("usage") is not None and encode_usage(one["usage"]) is None:
            one["usage"] = None
    return fields


def drop_enormous(value: Any) -> Any:
    """A value without the integers that orjson does not write."""
    match value:
        case dict():
            return {key: drop_enormous(inner) for key, inner in value.items()}
        case list():
            return [drop_enormous(inner) for inner in value]
        case int() if abs(value) >= 2**63:
            return None
        case _:
            return value


async def read_pages(
    store: ReceiptStore, workspace: str, criteria: ReceiptFilter, whole: bool = True
) -> AsyncGenerator[ReceiptPage]:
    """All matching receipts, page by page, newest first."""
    after = None
    while True:
        page = await store.list_page(workspace, criteria, after, EXPORT_PAGE, whole)
        yield page
        if (after := page.next) is None:
            return


def encode_lines(page: ReceiptPage) -> bytes:
    """Receipts as JSON, one in each line."""
    return b"".join(orjson.dumps(describe_receipt(one), option=orjson.OPT_APPEND_NEWLINE) for one in page.receipts)
