"""Questions in, picks out: what is picked, when, and what happens when it cannot be told."""

import asyncio
import logging
import time
from typing import Any

import pytest

from gateway.domain.memory_budget import ENTRY_BYTES, KEPT_SHARE, MemoryBudget
from gateway.domain.resource import ResourceKind
from gateway.domain.search import SearchResult
from gateway.semantic.index.passage_index import IndexWords, PassageIndex
from gateway.semantic.index.relations import RelationsBuilder
from gateway.semantic.search.view import IndexView, IndexViews
from tests.support.search_harness import FakeEmbedder, SearchHarness, open_search, resource, wait_until

PASSWORD = resource("help/password", "reset forgotten password account settings")
INVOICE = resource("help/invoice", "download monthly invoice billing page")
REFUND = resource("help/refund", "refund damaged parcel within thirty days")
HELP = (PASSWORD, INVOICE, REFUND)
# Cosines with the question of .87, .53 and .29, which are probabilities of 1.0, .65 and .01.
GRADED = (
    resource("g/near", "alpha beta gamma"),
    resource("g/middle", "alpha beta gamma one two three four five"),
    resource("g/far", "alpha beta one two three four five six seven eight nine ten"),
)
QUESTION = "alpha beta gamma omega"


async def test_what_the_question_speaks_of_is_picked_and_the_rest_is_not() -> None:
    async with open_search(HELP) as search:
        found = await search.find("reset forgotten account password please")
        (pick,) = found.picks
        assert (pick.resource, pick.via) == ("help/password", "semantic")
        assert pick.score > 0.7
        assert "reset forgotten account password" in pick.why
        assert (found.reason, found.pending) == (None, frozenset())
        assert {name for name, _ in found.scores} == {"help/invoice", "help/refund"}
        assert all(score < 0.1 for _, score in found.scores)


async def test_nothing_is_picked_for_a_question_about_something_else() -> None:
    async with open_search(HELP) as search:
        assert await search.picks("what is the weather like on tuesday evening") == []
        assert await search.picks("?!") == []


@pytest.mark.parametrize(
    ("configured", "asked", "expected"),
    [
        ({}, {}, ["g/near", "g/middle"]),
        ({"preset": "conservative"}, {}, ["g/near"]),
        ({"preset": "aggressive"}, {}, ["g/near", "g/middle", "g/far"]),
        ({}, {"preset": "aggressive"}, ["g/near", "g/middle", "g/far"]),
        ({"preset": "aggressive"}, {"preset": "conservative"}, ["g/near"]),
        ({}, {"preset": "aggressive", "top_n": 2}, ["g/near", "g/middle"]),
        ({"include_score": 0.005}, {}, ["g/near", "g/middle", "g/far"]),
        ({"include_score": 0.005}, {"include_score": 0.9}, ["g/near", "g/middle"]),
        # Whoever names a preset means its thresholds, not those that were configured for another one.
        ({"include_score": 0.005}, {"preset": "normal"}, ["g/near", "g/middle"]),
        ({"min_score": 0.99}, {}, ["g/near"]),
        ({"min_score": 0.99}, {"min_score": 0.5}, ["g/near", "g/middle"]),
        ({"top_n": 1}, {}, ["g/near"]),
        ({"top_n": 0, "include_score": 1.0}, {}, []),
    ],
)
async def test_presets_and_thresholds_of_request_and_configuration(
    configured: dict[str, Any], asked: dict[str, Any], expected: list[str]
) -> None:
    async with open_search(GRADED, **configured) as search:
        assert await search.picks(QUESTION, **asked) == expected


TOOLS = (
    resource("g/near-tool", "alpha beta gamma delta", kind=ResourceKind.TOOL),
    resource("g/middle-tool", "alpha beta gamma one two three four six", kind=ResourceKind.TOOL),
)
APART = (*GRADED, *TOOLS)


@pytest.mark.parametrize(
    ("configured", "asked", "expected"),
    [
        ({}, {}, ["g/near", "g/near-tool", "g/middle", "g/middle-tool"]),
        ({"top_n": 1}, {}, ["g/near", "g/near-tool"]),
        ({"kinds": {"tool": {"top_n": 1}}}, {}, ["g/near", "g/near-tool", "g/middle"]),
        ({"kinds": {"reference": {"min_score": 0.9}}}, {}, ["g/near", "g/near-tool", "g/middle-tool"]),
        ({}, {"kinds": {"tool": {"include_score": 1.0, "min_score": 1.0}}}, ["g/near", "g/middle"]),
        ({"kinds": {"tool": {"top_n": 0, "include_score": 1.0}}}, {}, ["g/near", "g/middle"]),
        # What a request says of all kinds goes before what is configured for one.
        ({"kinds": {"tool": {"top_n": 1}}}, {"top_n": 2}, ["g/near", "g/near-tool", "g/middle", "g/middle-tool"]),
        (
            {"kinds": {"tool": {"top_n": 1}}},
            {"preset": "normal"},
            ["g/middle", "g/middle-tool", "g/near", "g/near-tool"],
        ),
        # Only the best of a domain is looked at.
        ({"kinds": {"tool": {"top_k": 1}}}, {"preset": "normal"}, ["g/near", "g/near-tool", "g/middle"]),
    ],
)
async def test_tools_and_references_are_chosen_apart_each_by_its_own_settings(
    configured: dict[str, Any], asked: dict[str, Any], expected: list[str]
) -> None:
    async with open_search(APART, **configured) as search:
        assert sorted(await search.picks(QUESTION, **asked)) == sorted(expected)


async def test_references_score_the_same_with_and_without_tools_beside_them() -> None:
    async with open_search(APART) as search:
        apart = await search.find(QUESTION)
        alone = await search.find(QUESTION, among=[one.id for one in GRADED])
    tools = {one.id for one in TOOLS}
    assert [pick for pick in apart.picks if pick.resource not in tools] == list(alone.picks)
    assert [pair for pair in apart.scores if pair[0] not in tools] == list(alone.scores)


async def test_picks_stand_in_the_order_in_which_a_shrinking_budget_gives_them_up() -> None:
    tool = resource("g/tool", "alpha beta gamma one two three four five six", kind=ResourceKind.TOOL)
    related = resource("g/related", "one two three four five six")
    settings: dict[str, Any] = {"include_score": 1.0, "min_score": 0.3, "expansion": {"depth": 1, "threshold": 0.5}}
    async with open_search([*GRADED, tool, related], **settings) as search:
        picks = (await search.find(QUESTION)).picks
    # The first tool needs less than the second reference, although it is less likely.
    assert [(pick.resource, pick.needs) for pick in picks[:3]] == [("g/near", 0), ("g/tool", 0), ("g/middle", 0.2)]
    assert picks[1].score < picks[2].score
    assert {pick.resource for pick in picks[3:]} == {"g/related", "g/far"}
    assert [pick.needs for pick in picks] == sorted(pick.needs for pick in picks)


async def test_a_rule_is_chosen_among_the_references() -> None:
    rule = resource("g/rule", "alpha beta gamma one two three four five six", kind=ResourceKind.RULE)
    async with open_search([*GRADED, rule], top_n=2, kinds={"tool": {"top_n": 0}}) as search:
        assert await search.picks(QUESTION) == ["g/near", "g/middle"]


async def test_a_reference_leads_to_a_tool_that_its_text_speaks_of() -> None:
    tool = resource("help/mail", "password account settings by mail", kind=ResourceKind.TOOL)
    async with open_search([*HELP, tool], expansion={"depth": 1, "threshold": 0.5}) as search:
        found = await search.find("reset forgotten", preset="conservative")
    assert [(pick.resource, pick.via) for pick in found.picks] == [
        ("help/password", "semantic"),
        ("help/mail", "expansion"),
    ]


async def test_every_sentence_is_heard_before_any_gets_a_second_resource() -> None:
    first, second = "reset forgotten password account", "refund damaged parcel quickly"
    several = [
        resource("s/one", f"{first} settings"),
        resource("s/two", f"{first} settings mail"),
        resource("s/three", f"{second} when it rains"),
    ]
    async with open_search(several, include_score=1.0) as search:
        assert await search.picks(f"{first}. {second}.", top_n=2) == ["s/one", "s/three"]
        assert await search.picks(f"{first}.", top_n=2) == ["s/one", "s/two"]


async def test_a_short_follow_up_is_joined_to_earlier_messages_and_a_whole_question_is_not() -> None:
    async with open_search(HELP, min_score=0.2, include_score=0.9) as search:
        assert await search.picks("and in German?") == []
        assert await search.picks("and in German?", "reset forgotten password account") == ["help/password"]
        asked = "download monthly invoice billing page for everyone"
        assert await search.picks(asked, "reset forgotten password account") == ["help/invoice"]


async def test_what_is_near_to_a_pick_comes_along_and_says_why() -> None:
    related = resource("help/mail", "password account settings by mail")
    async with open_search([*HELP, related], expansion={"depth": 1, "threshold": 0.5}) as search:
        found = await search.find("reset forgotten", preset="conservative")
    assert [(pick.resource, pick.via) for pick in found.picks] == [
        ("help/password", "semantic"),
        ("help/mail", "expansion"),
    ]
    assert "near to help/password" in found.picks[1].why
    assert {name for name, _ in found.scores} == {"help/invoice", "help/refund"}


async def test_only_what_may_be_seen_is_found() -> None:
    async with open_search(HELP) as search:
        assert await search.picks("reset forgotten account password", among=["help/invoice", "help/refund"]) == []
        assert await search.engine.rank("w", "reset forgotten account password", ["help/invoice"]) == []


async def test_a_resource_without_vectors_is_pending_and_the_others_are_found() -> None:
    async with open_search(HELP) as search:
        search.embedder.gate.clear()
        late = resource("help/late", "holiday calendar of every office")
        search.submit(*HELP, late)
        search.embedder.gate.set()
        found = await search.find("reset forgotten account password")
        assert [pick.resource for pick in found.picks] == ["help/password"]
        assert found.pending == {"help/late"}
        await search.wait_until_indexed()
        assert await search.picks("holiday calendar of every office") == ["help/late"]
        assert (await search.find("holiday calendar of every office")).pending == frozenset()


async def test_nothing_indexed_yet_is_pending_and_not_a_failure() -> None:
    async with open_search() as search:
        assert await search.find("anything", among=["a/b"]) == SearchResult(pending=frozenset({"a/b"}))
        assert await search.engine.rank("w", "anything", ["a/b"]) is None
        assert await search.engine.find_passages("w", "anything", "a/b") == []


async def test_an_index_that_cannot_be_made_is_unavailable() -> None:
    bag = FakeEmbedder()
    bag.broken = True
    async with open_search(embedder=bag) as search:
        search.submit(*HELP)
        async with asyncio.timeout(5):
            while search.indexer.progress.error is None:  # noqa: ASYNC110, the indexer has no event for this
                await asyncio.sleep(0.001)
        assert (await search.find("anything")).reason == "unavailable"


@pytest.mark.parametrize("obeys", [True, False], ids=["embedder that keeps to its time", "embedder that does not"])
async def test_a_late_question_is_given_up_in_time_and_says_so(obeys: bool) -> None:
    async with open_search(HELP, milliseconds=40) as search:
        search.embedder.gate.clear()
        search.embedder.obeys = obeys
        began = time.monotonic()
        async with asyncio.timeout(5):
            found = await search.find("reset forgotten account password")
        assert found == SearchResult(reason="late")
        assert await search.engine.rank("w", "reset password", search.names) is None
        assert await search.engine.find_passages("w", "reset password", "help/password") == []
        assert 0.04 <= time.monotonic() - began < 4
        search.embedder.gate.set()
        async with asyncio.timeout(5):  # on a busy machine the next ones may be late too
            while (found := await search.find("reset forgotten account password")).reason == "late":
                pass
        assert [pick.resource for pick in found.picks] == ["help/password"]


async def test_a_broken_embedder_is_told_once_and_used_again_when_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    async with open_search(HELP) as search:
        search.embedder.broken = True
        for _ in range(3):
            assert (await search.find("reset forgotten account password")).reason == "unavailable"
        assert await search.engine.rank("w", "reset password", search.names) is None
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        search.embedder.broken = False
        assert await search.picks("reset forgotten account password") == ["help/password"]


async def test_vectors_of_another_width_are_no_reason_to_fail() -> None:
    async with open_search(HELP) as search:
        assert await search.picks("reset forgotten account password") == ["help/password"]
        search.embedder.width = 64
        assert (await search.find("download monthly invoice billing page now")).reason == "unavailable"
        mixed = "reset forgotten account password. And then download the monthly invoice."
        assert (await search.find(mixed)).reason == "unavailable"
        assert await search.engine.find_passages("w", "another question", "help/refund") == []


async def test_a_question_is_embedded_once_per_workspace() -> None:
    async with open_search(HELP) as search:
        for workspace in ("one", "one", "two"):
            await search.picks("reset forgotten account password", workspace=workspace)
        assert search.embedder.queries == ["reset forgotten account password"] * 2
        assert search.engine.cache.lookups.by_outcome == {("hit",): 1, ("miss",): 2}


async def test_the_tools_get_what_may_answer_best_first_without_noise() -> None:
    async with open_search([*GRADED, *HELP]) as search:
        assert await search.engine.rank("w", QUESTION, search.names) == ["g/near", "g/middle", "g/far"]


async def test_the_tools_cannot_tell_while_something_is_pending() -> None:
    async with open_search(HELP) as search:
        assert await search.engine.rank("w", "reset password", [*search.names, "help/new"]) is None
        assert await search.engine.find_passages("w", "reset password", "help/new") == []


async def test_the_passages_of_a_resource_come_best_first_and_examples_are_none() -> None:
    filler = "lorem ipsum dolor sit amet " * 15
    text = f"{filler}\n\nzebra stripes {filler}\n\nrefund parcel {filler}"
    async with open_search([resource("d/long", text, examples=["where are zebra stripes"])]) as search:
        found = await search.engine.find_passages("w", "where are zebra stripes", "d/long")
        assert len(found) == 3
        assert found[0].startswith("zebra stripes")
        assert "where are zebra stripes" not in found


async def test_the_former_index_serves_while_a_new_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read, passed, loop = IndexWords.build, asyncio.Event(), asyncio.get_running_loop()

    def read_slowly(index: PassageIndex, former: IndexWords | None) -> IndexWords:
        asyncio.run_coroutine_threadsafe(passed.wait(), loop).result(30)
        return read(index, former)

    async with open_search(HELP) as search:
        monkeypatch.setattr(IndexWords, "build", read_slowly)
        search.submit(*HELP, resource("help/new", "holiday calendar of every office"))
        await search.indexer.wait_until_indexed()
        began = time.monotonic()
        found = await search.find("reset forgotten account password")
        assert [pick.resource for pick in found.picks] == ["help/password"]
        assert (found.pending, search.engine.generation) == (frozenset({"help/new"}), 1)
        assert time.monotonic() - began < 20  # of the thirty that reading may take
        passed.set()
        await search.wait_until_indexed()
        assert search.engine.generation == 2
        assert await search.picks("holiday calendar of every office") == ["help/new"]


async def test_questions_that_come_together_share_one_view(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[tuple[str, ...]] = []
    build = IndexView.build

    def counting(words: IndexWords, resources: tuple[str, ...]) -> IndexView:
        built.append(resources)
        return build(words, resources)

    monkeypatch.setattr(IndexView, "build", counting)
    async with open_search(HELP, milliseconds=5000) as search:
        async with asyncio.TaskGroup() as together:
            for number in range(20):
                together.create_task(search.picks(f"question number {number}"))
        await search.picks("and another one", among=search.names[:1])
        assert built == [tuple(search.names), tuple(search.names[:1])]


async def test_whoever_asked_lately_finds_a_view_of_the_newer_index_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another workspace may change its policies all the time: questions do not wait for views because of that."""
    async with open_search(HELP, milliseconds=5000) as search:
        mine = search.names[:1]
        await search.picks("reset forgotten account password", among=mine)
        search.submit(*HELP, resource("other/new", "holiday calendar of every office"))
        await search.wait_until_indexed()
        built: list[object] = []
        monkeypatch.setattr(IndexView, "build", lambda *given: built.append(given))
        assert await search.picks("reset forgotten account password", among=mine) == mine
        assert built == []
        monkeypatch.undo()
        search.submit(*HELP)
        await search.wait_until_indexed()
        search.submit(*HELP, resource("other/newer", "another calendar of every office"))
        monkeypatch.setattr(IndexView, "build", lambda *given: built.append(given))
        await search.wait_until_indexed()
        assert built == []  # nobody has asked since


async def test_views_are_forgotten_the_oldest_first() -> None:
    async with open_search(HELP) as search:
        scopes = [tuple(names) for names in (search.names, search.names[:1], search.names[1:])]
        words = search.engine._views.current
        assert words is not None
        sizes = [IndexView.build(words, scope).nbytes + ENTRY_BYTES for scope in scopes]
        views = IndexViews(search.indexer, MemoryBudget(int((sizes[1] + sizes[2]) / KEPT_SHARE) + 1))
        await views.catch_up()
        words = views.current
        assert words is not None
        first = [await views.get_view(words, scope) for scope in scopes]
        again = [await views.get_view(words, scope) for scope in reversed(scopes)][::-1]
        assert [one is other for one, other in zip(first, again, strict=True)] == [False, True, True]


async def test_a_view_larger_than_the_bound_is_kept_until_another_comes() -> None:
    async with open_search(HELP) as search:
        views = IndexViews(search.indexer, MemoryBudget(1_000))
        await views.catch_up()
        words = views.current
        assert words is not None
        all_names, one_name = tuple(search.names), tuple(search.names[:1])
        large = await views.get_view(words, all_names)
        assert await views.get_view(words, all_names) is large
        await views.get_view(words, one_name)
        assert await views.get_view(words, all_names) is not large


@pytest.fixture
def swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: what is late is called finished."""
    find = SearchHarness.find

    async def told(self: SearchHarness, *asked: Any, **more: Any) -> SearchResult:
        found = await find(self, *asked, **more)
        return SearchResult(pending=found.pending) if found.reason == "late" else found

    monkeypatch.setattr(SearchHarness, "find", told)


@pytest.mark.usefixtures("swallowed")
async def test_lateness_that_is_swallowed_would_be_noticed() -> None:
    with pytest.raises(AssertionError):
        await test_a_late_question_is_given_up_in_time_and_says_so(True)


async def test_a_request_expands_its_picks_although_the_configuration_does_not() -> None:
    related = resource("help/mail", "password account settings by mail")
    asked: dict[str, Any] = {"preset": "conservative", "expansion": {"depth": 1, "threshold": 0.5}}
    async with open_search([*HELP, related]) as search:
        assert await search.picks("reset forgotten", preset="conservative") == ["help/password"]
        assert await search.picks("reset forgotten", **asked) == ["help/password", "help/mail"]
        asked["expansion"]["threshold"] = 0.9
        assert await search.picks("reset forgotten", **asked) == ["help/password"]


async def test_a_request_switches_off_what_the_configuration_expands() -> None:
    related = resource("help/mail", "password account settings by mail")
    async with open_search([*HELP, related], expansion={"depth": 1, "threshold": 0.5}) as search:
        off = {"depth": 0}
        assert await search.picks("reset forgotten", preset="conservative", expansion=off) == ["help/password"]


async def test_resources_are_related_once_somebody_expands_and_not_before() -> None:
    few = [resource(f"c/{number}", f"alpha beta gamma word{number} word{number % 3}") for number in range(12)]
    asked: dict[str, Any] = {"preset": "conservative", "include_score": 0.3}
    async with open_search(few) as search:
        search.engine._relations = relations = RelationsBuilder(large=1)
        running = asyncio.create_task(search.engine.update_relations())
        await search.find("alpha word1", **asked)
        await asyncio.sleep(0.1)
        assert relations.current is None
        asked["expansion"] = {"depth": 1, "threshold": 0.5}
        before = await search.find("alpha word1", **asked)
        await wait_until(lambda: relations.current is not None)
        after = await search.find("alpha word1", **asked)
        running.cancel()
    assert any(pick.via == "expansion" for pick in before.picks)
    assert [pick.resource for pick in before.picks] == [pick.resource for pick in after.picks]
