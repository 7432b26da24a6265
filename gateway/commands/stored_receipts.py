"""The receipts in the configured store, whether or not a gateway runs on it."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

from gateway.commands.common import require_lasting_store
from gateway.domain.receipt import ReceiptFilter
from gateway.errors import NotFound
from gateway.receipts.views import describe_receipt, encode_lines, read_pages
from gateway.settings import Settings
from gateway.stores.open import open_receipts
from gateway.stores.protocols import ReceiptStore

MAX_SESSION = 500  # receipts of a session that are read


@asynccontextmanager
async def open_stored_receipts(settings: Settings) -> AsyncGenerator[ReceiptStore]:
    """The configured store; raises StoreError if it cannot be used or would not last."""
    require_lasting_store(settings, "keep receipts in")
    store = await open_receipts(settings.store)
    try:
        yield store
    finally:
        await store.close()


async def list_receipts(settings: Settings, workspace: str, criteria: ReceiptFilter, take: int) -> list[dict[str, Any]]:
    """The newest receipts that match."""
    found: list[dict[str, Any]] = []
    async with (
        open_stored_receipts(settings) as store,
        aclosing(read_pages(store, workspace, criteria, whole=False)) as pages,
    ):
        async for page in pages:
            found += map(describe_receipt, page.receipts)
            if len(found) >= take:
                break
    return found[:take]


async def show_receipt(settings: Settings, workspace: str, id: str) -> dict[str, Any]:
    async with open_stored_receipts(settings) as store:
        receipt = await store.find(workspace, id)
    if receipt is None:
        raise NotFound(f"There is no receipt {id!r} in the workspace {workspace!r}.")
    return describe_receipt(receipt)


async def read_session(settings: Settings, workspace: str, session: str) -> list[dict[str, Any]]:
    """The receipts of a session with their details, oldest first; the last ones if there are very many."""
    found: list[dict[str, Any]] = []
    criteria = ReceiptFilter(session=session)
    async with open_stored_receipts(settings) as store, aclosing(read_pages(store, workspace, criteria)) as pages:
        async for page in pages:
            found += map(describe_receipt, page.receipts)
            if len(found) >= MAX_SESSION:
                break
    return found[:MAX_SESSION][::-1]


async def export_receipts(
    settings: Settings, workspace: str, criteria: ReceiptFilter, write: Callable[[bytes], object]
) -> None:
    """Write all receipts that match, one in each line."""
    async with open_stored_receipts(settings) as store, aclosing(read_pages(store, workspace, criteria)) as pages:
        async for page in pages:
            write(encode_lines(page))


async def delete_receipt(settings: Settings, workspace: str, id: str) -> None:
    async with open_stored_receipts(settings) as store:
        if not await store.delete(workspace, id):
            raise NotFound(f"There is no receipt {id!r} in the workspace {workspace!r}.")
