"""Builds requests and receipts again under any policies of a workspace, and compares the results."""

from typing import Any

import msgspec
import orjson

from gateway.domain.principal import Principal
from gateway.errors import NotFound
from gateway.fair_queue import FairQueue, FairThreads
from gateway.ids import read_id_time
from gateway.queue_bounds import QueueBounds
from gateway.receipts.views import describe_receipt
from gateway.replay.overlay import OverlayBuilder, PolicyChoice
from gateway.replay.receipt_source import GivenRequest, ReceiptFields, build_receipt_source
from gateway.replay.request_diff import RECORDED, compare_items, compare_requests
from gateway.replay.resolved_request import RequestResolver, RequestSource, ResolvedRequest
from gateway.stores.protocols import ReceiptStore

BOUNDS = QueueBounds(places=4, each=2, waiting=32)  # policies that are built beside those that serve


class RequestChoice(msgspec.Struct, frozen=True):
    """A request: that of a receipt or a hypothetical one, and the policies to build it with."""

    given: GivenRequest = msgspec.field(default_factory=GivenRequest)
    receipt: str | None = None
    policies: PolicyChoice = msgspec.field(default_factory=PolicyChoice)
    as_of_receipt: bool = False  # with the policies of the receipt's time


class Replayer(msgspec.Struct, frozen=True):
    """Resolves requests for one caller at a time; nothing is sent to a model, stored or served."""

    resolver: RequestResolver
    overlays: OverlayBuilder
    receipts: ReceiptStore
    threads: FairThreads
    queue: FairQueue = msgspec.field(default_factory=lambda: FairQueue(BOUNDS))

    async def resolve(self, caller: Principal, choice: RequestChoice) -> ResolvedRequest:
        """The request as it would be sent."""
        if choice.receipt is None:
            source = RequestSource(caller, orjson.dumps(choice.given.build_body()))
            return await self._build(source, choice.policies)
        return await self.replay(caller, await self.find_receipt(caller.workspace, choice.receipt), choice)

    async def replay(self, caller: Principal, receipt: ReceiptFields, choice: RequestChoice) -> ResolvedRequest:
        """The request of a receipt as it would be sent."""
        source = await build_receipt_source(receipt, choice.given, caller)
        policies = choice.policies
        if choice.as_of_receipt:
            at = read_id_time(receipt["id"])
            policies = PolicyChoice(at, policies.versions, policies.drafts)
        return await self._build(source, policies)

    async def compare(self, before: ResolvedRequest, after: ResolvedRequest) -> dict[str, Any]:
        """What differs between two requests."""
        return await self.threads.run(before.exchange.principal.workspace, compare_requests, before, after)

    async def find_receipt(self, workspace: str, id: str) -> ReceiptFields:
        """A receipt of the workspace; raises NotFound."""
        receipt = await self.receipts.find(workspace, id)
        if receipt is None:
            raise NotFound("There is no such receipt.")
        return describe_receipt(receipt)

    async def _build(self, source: RequestSource, policies: PolicyChoice) -> ResolvedRequest:
        workspace = source.principal.workspace
        if policies.is_current:
            snapshot = await self.overlays.build(workspace, policies)
            return await self.resolver.resolve(source, snapshot, is_served=True)
        async with self.queue.hold(workspace):
            snapshot = await self.overlays.build(workspace, policies)
            return await self.resolver.resolve(source, snapshot, is_served=False)


def describe_replay(receipt: ReceiptFields, resolved: ResolvedRequest) -> dict[str, Any]:
    """A replayed request, and in what it differs from what the receipt says was sent."""
    shown = resolved.describe()
    recorded = receipt.get("selection", {}).get("injected", [])
    items = compare_items(recorded, shown["selection"]["injected"], fields=RECORDED)
    same_tokens = receipt.get("context_tokens") == shown["tokens"]["total"]
    return {
        **shown,
        "receipt": {
            "id": receipt["id"],
            "same_policies": receipt.get("snapshot") == resolved.exchange.snapshot.hash,
            "same_context": same_tokens and not any(items.values()),
            "items": items,
            "omitted": list(resolved.source.omitted),
        },
    }
