"""Receipts as people and programs read them."""

from collections.abc import AsyncGenerator
from typing import Any

import orjson

from gateway.domain.receipt import Receipt, ReceiptFilter, ReceiptPage
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
        **orjson.loads(receipt.summary),
        **orjson.loads(receipt.details or b"{}"),
    }


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
