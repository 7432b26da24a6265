"""What is cached of injections: nothing that a client wrote, and as many bytes as its weights say."""

import gc
import tracemalloc
from collections.abc import Callable
from types import FunctionType

import pytest

from gateway.domain.hints import ContextHints
from gateway.domain.memory_budget import MemoryBudget
from gateway.domain.principal import Principal
from gateway.domain.scope import ContextRequest
from gateway.domain.snapshot import Snapshot
from gateway.injection.tools import PLAIN_TOOLS
from tests.support.built_injections import MANY, QUESTIONS, build, make_builder

Policies = Callable[[str], Snapshot]


def find_texts(root: object, marker: str) -> list[object]:
    """Every text below an object that holds a marker."""
    seen: set[int] = set()
    waiting: list[object] = [root]
    found: list[object] = []
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type):
            continue
        seen.add(id(one))
        if (isinstance(one, str) and marker in one) or (isinstance(one, bytes) and marker.encode() in one):
            found.append(one)
        # Of a function only what it encloses: its module is not what it holds.
        waiting += gc.get_referents(one.__closure__ if isinstance(one, FunctionType) else one)
    return found


async def test_nothing_of_a_user_a_session_or_a_client_is_kept_in_what_callers_share(policies: Policies) -> None:
    """Two users on one key, and every text that a client may send."""
    snapshot = policies(MANY % ("one: {inject: false}, two: {contexts: [house]}", "n: {}"))
    builder = make_builder(MemoryBudget())
    who = Principal("SECRET-key", rights=frozenset({"act_as_user"}), key="SECRET-id")
    for user in ("SECRET-ann", "SECRET-ben"):
        for agent in ("one", "two"):
            asked = ContextRequest(
                agent=agent,
                user=user,
                session=f"SECRET-{user}",
                content="site/n/SECRET",
                language="SECRET",
                task="SECRET",
                type="SECRET",
                include=("SECRET",) if agent == "one" else (),
                exclude=frozenset({"SECRET"}),
                vars={"SECRET": "SECRET"},
                refs={"SECRET": "SECRET"},
                hints=ContextHints(include=frozenset({"SECRET"})),
            )
            await build(builder, snapshot, asked, who, PLAIN_TOOLS, "mSECRET", "SECRET")
    partition = snapshot.partitions["default"]
    assert len(partition) == 2, "two users and their sessions make no difference"
    assert find_texts(partition, "Write plainly."), "the search for texts finds what is there"
    assert find_texts(partition, "SECRET") == []


async def test_long_texts_of_clients_are_not_kept(policies: Policies) -> None:
    """A flood of 60 requests with 5 MB each, in every field that was part of a key."""
    snapshot = policies(MANY % ("one: {inject: false}", ""))
    builder, who = make_builder(MemoryBudget()), Principal("key")
    await build(builder, snapshot, ContextRequest(), who, PLAIN_TOOLS, "m", "Hi")
    gc.collect()
    tracemalloc.start()
    for number in range(60):
        text = f"{number}" + "x" * 5 * 2**20
        asked = ContextRequest(agent="one", language=text, include=(text,), exclude=frozenset({text}), budget=number)
        await build(builder, snapshot, asked, who, PLAIN_TOOLS, "m" + text, "Hi")
    del text, asked
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert grown < 2**20, f"{grown / 2**20:.0f} MB are held"


RICH = {
    "few": (3, 200, "text, mode: always"),
    "long": (2, 40_000, "text, mode: always"),
    "catalogue": (300, 10, "text, mode: on_demand"),
    "searched": (300, 10, "text, mode: semantic"),
    "cut": (1, 9_000, "text, mode: always"),
}


@pytest.mark.parametrize("kind", RICH)
async def test_weights_are_the_bytes_that_are_held(policies: Policies, kind: str) -> None:
    """Distinct contexts, scopes and questions, beside what is really allocated for them."""
    count, size, shape = RICH[kind]
    resources = ", ".join(
        f"r{place}: {{type: {shape}, description: 'Some text', data: {{content: '{'word ' * (size // 5)}'}}}}"
        for place in range(count)
    )
    snapshot = policies(f"contexts: {{a: {{default: true, resources: {{{resources}}}}}}}")
    builder, who = make_builder(MemoryBudget(2**30)), Principal("key")
    budgets = range(100_000, 100_020) if kind != "cut" else range(1_000, 1_020)

    async def ask(budget: int) -> None:
        asked = ContextRequest(budget=budget, exclude=frozenset({f"a/r{budget % count}"}))
        for question in QUESTIONS:
            await build(builder, snapshot, asked, who, PLAIN_TOOLS, "m", question)

    await ask(99_999)
    partition = snapshot.partitions["default"]
    before = partition.weight
    gc.collect()
    tracemalloc.start()
    for budget in budgets:
        await ask(budget)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 0.8 < (partition.weight - before) / held < 2, f"{partition.weight - before} of {held}"


async def test_many_scopes_stay_within_the_bound(policies: Policies) -> None:
    snapshot = policies(MANY % ("", ""))
    memory = MemoryBudget(200_000)
    builder, who = make_builder(memory), Principal("key")
    for budget in range(2_000):
        await build(builder, snapshot, ContextRequest(content="site", budget=budget), who, PLAIN_TOOLS, "m", "Hi")
    assert memory.measure() <= 200_000
    assert len(snapshot.partitions["default"]) > 10
