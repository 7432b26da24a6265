"""A large body takes milliseconds at each step of its walk; the requests of others come in between."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.domain.chat import PAUSE_BYTES
from gateway.domain.exchange import Exchange
from gateway.domain.principal import ANONYMOUS
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.edge.background_rules import BodyRules
from gateway.edge.chat import ChatEndpoint
from gateway.edge.count_tokens import COUNTED, CountedRequests, CountTokensEndpoint
from gateway.errors import InvalidRequest
from gateway.fair_queue import FairQueue
from gateway.loop_turns import LoopTurns
from gateway.queue_bounds import CORE_BOUNDS

HEAD = SimpleNamespace(content_type=b"application/json")
UNUSED: Any = None


class Steps:
    """Stands for the client's request and for the pipeline, and notes what happens when."""

    def __init__(self, size: int) -> None:
        self.size, self.noted = size, list[str]()
        self.target = SimpleNamespace(model=None)

    async def read_body(self, head: object, most: int) -> bytes:
        self.noted.append("read")
        return b"x" * self.size

    async def prepare(self, exchange: Exchange, body: bytes, dialect: object) -> None:
        self.noted.append("prepare")

    async def converse(self, exchange: Exchange, prepared: None) -> None:
        self.noted.append("converse")

    def let_others_in(self) -> None:
        self.noted.append("others")
        asyncio.get_running_loop().call_soon(self.let_others_in)


@pytest.mark.parametrize(("size", "between"), [(PAUSE_BYTES + 1, ["others"]), (PAUSE_BYTES, [])])
async def test_others_have_their_turn_between_the_steps_of_a_large_body_only(size: int, between: list[str]) -> None:
    steps: Any = Steps(size)
    policies = SimpleNamespace(get_snapshot=lambda workspace: EMPTY_SNAPSHOT, store_error=None)
    endpoint = ChatEndpoint(
        UNUSED, steps, policies, UNUSED, UNUSED, UNUSED, BodyRules(CHAT, 2**30, LoopTurns(FairQueue(CORE_BOUNDS)))
    )
    asyncio.get_running_loop().call_soon(steps.let_others_in)
    exchange = Exchange("id", ANONYMOUS, EMPTY_SNAPSHOT, [])
    caller: Any = SimpleNamespace(head=HEAD)
    await endpoint._reply(steps, exchange, caller, None)
    steps.let_others_in = lambda: None
    assert steps.noted == ["read", *between, "prepare", *between, "converse"]


async def test_a_request_of_a_heavy_workspace_waits_while_others_questions_are_answered() -> None:
    steps: Any = Steps(10)
    cores = FairQueue(CORE_BOUNDS)
    policies = SimpleNamespace(get_snapshot=lambda workspace: EMPTY_SNAPSHOT, store_error=None)
    cores.note_activity("other")
    cores.note_activity(ANONYMOUS.workspace)
    cores.shares.charge(ANONYMOUS.workspace, 1.0)
    endpoint = ChatEndpoint(UNUSED, steps, policies, UNUSED, UNUSED, UNUSED, BodyRules(CHAT, 2**30, LoopTurns(cores)))
    caller: Any = SimpleNamespace(head=HEAD)
    with cores.precedence.answering("other"):
        reply = endpoint._reply(steps, Exchange("id", ANONYMOUS, EMPTY_SNAPSHOT, []), caller, None)
        waiting = asyncio.create_task(reply)
        await asyncio.sleep(0)
        assert steps.noted == ["read"]
    await asyncio.wait_for(waiting, 5)
    assert steps.noted == ["read", "prepare", "converse"]


class StepsToCount(Steps):
    """Those of a request whose tokens are counted, until it is prepared."""

    async def prepare(self, exchange: Exchange, body: bytes, dialect: object) -> None:
        await super().prepare(exchange, body, dialect)
        raise InvalidRequest("Enough.")


@pytest.mark.parametrize("counted", COUNTED)
async def test_a_large_body_that_is_only_counted_waits_for_its_turn_too(counted: CountedRequests) -> None:
    steps: Any = StepsToCount(PAUSE_BYTES + 1)
    turns = LoopTurns(FairQueue(CORE_BOUNDS))
    endpoint = CountTokensEndpoint(replace(counted, turns=turns), UNUSED, steps, UNUSED, UNUSED, UNUSED, UNUSED)
    asyncio.get_running_loop().call_soon(steps.let_others_in)
    caller: Any = SimpleNamespace(head=HEAD, principal=ANONYMOUS)
    with pytest.raises(InvalidRequest):
        await endpoint._count(steps, caller, Exchange("id", ANONYMOUS, EMPTY_SNAPSHOT, []))
    steps.let_others_in = lambda: None
    assert steps.noted == ["read", "others", "prepare"]
