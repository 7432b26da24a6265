"""A store that holds as much as a large organisation would have, for what has to cope with it."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

import orjson

from gateway.domain.receipt import Receipt
from gateway.domain.receipt_note import ReceiptBatch
from gateway.domain.record import Author, RecordKey, RecordWrite
from gateway.ids import encode_id_time
from gateway.policies.node_records import outline_write
from gateway.stores.open import open_receipts, open_stores
from tests.support.workspaces import SUMMARY

ADMIN_KEY = "admin-key-of-the-large-store"
WORKSPACE = "default"
PARAGRAPH = "Write short sentences and name the product first. " * 20  # 1 KB
BATCH = 200  # records of one commit, which a store has to answer in time, on a loaded machine too
AUTHOR = Author("seeder", "import")


@dataclass(frozen=True)
class LargeStore:
    """How much of what."""

    contexts: int = 1_000
    resources: int = 5  # of each context, 1 KB each
    nodes: int = 100_000
    folder: int = 100  # nodes below one, on two levels
    keys: int = 10_000
    receipts: int = 10_000
    huge: int = 0  # resources of one more context

    async def fill(self, url: str) -> None:
        """Write everything; the gateway must not run yet."""
        stores = await open_stores(url)
        writes = [*self._list_contexts(), *self._list_keys(), *self._list_nodes()]
        for start in range(0, len(writes), BATCH):
            await stores.records.commit(writes[start : start + BATCH], AUTHOR)
        await stores.close()
        receipts = await open_receipts(url)
        kept = list(self._list_receipts())
        for start in range(0, len(kept), BATCH):
            await receipts.write(ReceiptBatch(kept[start : start + BATCH]), "boot of the tests")
        await receipts.close()

    def _list_contexts(self) -> Iterator[RecordWrite]:
        texts = {
            f"text-{number}": {"type": "text", "name": f"Text {number}", "data": {"content": PARAGRAPH}}
            for number in range(self.resources)
        }
        for number in range(self.contexts):
            yield write("contexts", f"large-{number:05}", {"name": f"Large {number:05}", "resources": texts}, number)
        if self.huge:
            short = {
                f"text-{number}": {"type": "text", "name": f"Text {number}", "data": {"content": f"Rule {number}."}}
                for number in range(self.huge)
            }
            yield write("contexts", "huge", {"name": "Huge", "resources": short}, self.contexts)

    def _list_nodes(self) -> Iterator[RecordWrite]:
        """Sections of folders of pages."""
        per_section = self.folder * (self.folder + 1) + 1
        for number in range(self.nodes):
            section, place = divmod(number, per_section)
            folder, page = divmod(place - 1, self.folder + 1)
            parent = None if place == 0 else f"s{section}" if page == 0 else f"s{section}-f{folder}"
            id = f"s{section}" if place == 0 else f"s{section}-f{folder}" if page == 0 else f"n{number}"
            body = {"key": id, "parent": parent, "title": f"Node {number:06}"}
            yield outline_write(write("content", id, body, number))

    def _list_keys(self) -> Iterator[RecordWrite]:
        for number in range(self.keys):
            secret, role = (ADMIN_KEY, "admin") if number == 0 else (f"key {number}", "chat")
            body = {"name": f"Key {number:05}", "role": role, "sha256": sha256(secret.encode()).hexdigest()}
            yield write("keys", f"key-{number:012x}", body, number)

    def _list_receipts(self) -> Iterator[Receipt]:
        now, summary = time.time(), orjson.dumps(SUMMARY)
        for number in range(self.receipts):
            id = encode_id_time(now - number) + f"{number:012x}"
            yield Receipt(id, WORKSPACE, "ok", agent="writer", summary=summary)


def write(kind: str, alias: str, body: Mapping[str, object], number: int) -> RecordWrite:
    return RecordWrite(RecordKey(WORKSPACE, kind, alias), orjson.dumps(body), id=f"{number:019x}")
