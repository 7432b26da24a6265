"""Which picks stay in a session, and in which order."""

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.domain.candidate import Candidate, Level
from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.domain.selection import Omission, PlacedResource, Selection, StickySelection
from gateway.domain.session import MAX_STICKY, StickyPick
from gateway.selection.pricing import Pricing
from gateway.selection.sticky import KEEP_MESSAGES, KEEP_SCORE, digest_texts, keep_picks

DIGESTS = digest_texts((f"Question {number}" for number in range(40)), b"secret")
PRICE = 10
PRICING = Pricing(lambda resource, text: PRICE)
ROOM = 1000


def make_candidate(name: str, score: float | None = None) -> Candidate:
    facts: dict[str, Any] = {"languages": (), "conflict_key": None, "priority": 100, "required": False}
    more: dict[str, Any] = {"readers": (), "examples": (), "data": None, "description": "", "mandatory": False}
    resource = Resource(
        id=f"c/{name}", context="c", type="text", name=name, mode=Mode.SEMANTIC, kind=ResourceKind.REFERENCE, text=name,
        truncate="none", **facts, **more,
    )  # fmt: skip
    return Candidate(resource, Level.AGENT, "", "semantic", "", score)


def place(name: str, truncated: bool = False) -> PlacedResource:
    return PlacedResource(make_candidate(name, 0.9), name, PRICE, truncated)


def offer(name: str, score: float | None = None, reason: str | None = "below_threshold") -> Omission:
    return Omission(make_candidate(name, score), reason)


def pick(name: str, message: int, picked: int | None = None) -> StickyPick:
    return StickyPick(f"c/{name}", message, DIGESTS[message], message if picked is None else picked)


def keep(plain: Selection, former: list[StickyPick], asked: int, room: int = ROOM) -> StickySelection:
    """What stays when the user message with the number `asked` is the last one."""
    return keep_picks(replace(plain, budget=ROOM), former, DIGESTS[: asked + 1], room, PRICING)


def names(kept: StickySelection) -> list[str]:
    return [one.candidate.resource.name for one in kept.selection.volatile]


def test_what_stays_comes_first_and_new_picks_after_it() -> None:
    plain = Selection(volatile=(place("b"), place("d")), catalogue=(offer("a"), offer("c"), offer("b", reason=None)))
    kept = keep(plain, [pick("a", 0), pick("b", 1)], 3)
    assert names(kept) == ["a", "b", "d"]
    assert [one.candidate.via for one in kept.selection.volatile] == ["sticky", "semantic", "semantic"]
    assert [(one.id, one.message) for one in kept.picks] == [("c/a", 0), ("c/b", 1), ("c/d", 3)]
    assert {one.candidate.resource.name: one.reason for one in kept.selection.catalogue}["a"] is None
    assert kept.selection.volatile[0].candidate.why == "stays in the session: picked 3 messages ago"


def test_a_pick_has_no_place_in_another_history() -> None:
    other = StickyPick("c/a", 0, "0123456789abcdef", 0)
    later = pick("b", 9)
    kept = keep(Selection(catalogue=(offer("a"), offer("b"))), [other, later], 3)
    assert (names(kept), kept.picks) == ([], ())


@pytest.mark.parametrize("reason", ["excluded", "language", "overridden"])
def test_what_is_not_in_scope_does_not_come_back(reason: str) -> None:
    kept = keep(Selection(dropped=(offer("a", 0.9, reason),)), [pick("a", 0)], 1)
    assert (names(kept), kept.picks) == ([], ())


def test_without_tools_what_stays_is_not_dropped() -> None:
    kept = keep(Selection(dropped=(offer("a", 0.1, "no_tools"),)), [pick("a", 0)], 1)
    assert (names(kept), kept.selection.dropped) == (["a"], ())


def test_what_the_question_needs_is_paid_first_and_then_the_most_relevant() -> None:
    plain = Selection(volatile=(place("new"),), catalogue=(offer("a", 0.1), offer("b", 0.3), offer("c", 0.2)))
    kept = keep(plain, [pick("a", 0), pick("b", 1), pick("c", 2)], 3, room=3 * PRICE)
    assert names(kept) == ["b", "c", "new"]
    truncated = replace(plain, volatile=(place("new", truncated=True),))
    assert names(keep(truncated, [pick("a", 0)], 3, room=3 * PRICE)) == ["new"]
    over = replace(plain, catalogue=(*plain.catalogue, offer("d", 0.9, "over_budget")))
    assert names(keep(over, [pick("a", 0)], 3)) == ["new"]


def test_definitions_of_tools_are_paid_before_what_stays() -> None:
    plain = Selection(catalogue=(offer("a", 0.1), offer("b", 0.3)))
    former = [pick("a", 0), pick("b", 1)]
    assert names(keep(plain, former, 3, room=2 * PRICE)) == ["a", "b"]
    assert names(keep(replace(plain, tools=(place("found"),)), former, 3, room=2 * PRICE)) == ["b"]
    always = PlacedResource(replace(make_candidate("always"), named=True), "always", ROOM - PRICE)
    assert names(keep(replace(plain, tools=(always,)), former, 3)) == ["b"]


def test_what_was_truncated_is_not_remembered() -> None:
    kept = keep(Selection(volatile=(place("a", truncated=True),)), [pick("a", 0)], 1)
    assert (names(kept), kept.picks) == (["a"], ())


def test_what_is_no_longer_relevant_goes_all_at_once_when_it_takes_too_much() -> None:
    asked = KEEP_MESSAGES + 5
    former = [pick(f"old-{number}", number) for number in range(4)] + [pick("fresh", asked - 1)]
    offers = tuple(offer(one.id[2:]) for one in former)
    few = keep(Selection(catalogue=offers), former, asked, room=8 * PRICE)
    assert len(few.picks) == 5
    many = keep(Selection(catalogue=offers), former, asked, room=7 * PRICE)
    assert names(many) == ["fresh"]


def test_a_relevant_one_is_no_burden_however_old_it_is() -> None:
    asked = KEEP_MESSAGES + 5
    former = [pick("relevant", 0), pick("late", 1), pick("stale", 2)]
    offers = (offer("relevant", KEEP_SCORE), offer("late", None, "late"), offer("stale", KEEP_SCORE / 2))
    assert names(keep(Selection(catalogue=offers), former, asked, room=3 * PRICE)) == ["relevant", "late", "stale"]
    assert names(keep(Selection(catalogue=offers), former, asked, room=2 * PRICE)) == ["relevant", "late"]


def test_that_it_was_picked_again_is_noted_now_and_then() -> None:
    plain = Selection(volatile=(place("a"),))
    for asked, noted in ((KEEP_MESSAGES // 2, 0), (KEEP_MESSAGES // 2 + 1, KEEP_MESSAGES // 2 + 1)):
        (kept,) = keep(plain, [pick("a", 0)], asked).picks
        assert (kept.message, kept.picked) == (0, noted)


def test_what_is_remembered_is_bounded() -> None:
    plain = Selection(volatile=tuple(place(f"n{number}") for number in range(30)))
    kept = keep(plain, [], 0)
    assert (len(kept.picks), len(names(kept))) == (MAX_STICKY, 30)


def test_nothing_is_kept_where_the_user_has_said_nothing() -> None:
    assert keep_picks(Selection(), [pick("a", 0)], [], ROOM, PRICING).picks == ()


def test_nobody_can_tell_from_a_digest_what_was_said() -> None:
    (one,), (other,) = digest_texts(["Hi"], b"secret"), digest_texts(["Hi"], b"another" * 20)
    assert one != other
    assert len(one) == 16
