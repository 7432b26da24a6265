"""What people and requests change in a session."""

from msgspec.structs import replace

from gateway.domain.resource import Mode
from gateway.domain.session import MAX_STICKY, Session, StickyPick
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.sessions.changes import MAX_RETAINED, SessionChange, StickyChange, add_items, remove_items, retain_items
from tests.support.search_harness import resource

BASE = resource("c", "base")
SNAPSHOT = replace(EMPTY_SNAPSHOT, resources={f"c/{mode}": replace(BASE, id=f"c/{mode}", mode=mode) for mode in Mode})


def test_what_was_added_by_hand_stays_in_the_order_of_its_addition() -> None:
    session = add_items(add_items(Session(), ["c/manual", "c/semantic"]), ["c/manual", "c/always"])
    assert session.added == ("c/manual", "c/semantic", "c/always")


def test_adding_nothing_new_is_no_change() -> None:
    session = Session(added=("c/manual",))
    assert add_items(session, ["c/manual"]) is session


def test_what_was_added_by_hand_goes_as_it_came() -> None:
    session = remove_items(Session(added=("c/manual",), retained=("c/semantic",)), ["c/manual", "c/semantic"], SNAPSHOT)
    assert session == Session()


def test_an_always_resource_that_was_removed_stays_out() -> None:
    session = remove_items(Session(added=("c/always",)), ["c/always"], SNAPSHOT)
    assert (session.added, session.removed) == ((), ("c/always",))


def test_a_resource_that_only_a_search_would_bring_can_be_kept_out() -> None:
    assert remove_items(Session(), ["c/semantic", "c/semantic"], SNAPSHOT).removed == ("c/semantic",)


def test_what_was_removed_comes_back_when_it_is_added() -> None:
    session = add_items(Session(removed=("c/always", "c/semantic")), ["c/always"])
    assert (session.added, session.removed) == (("c/always",), ("c/semantic",))


def test_the_model_keeps_the_latest_of_what_it_fetched() -> None:
    session = retain_items(Session(), [f"c/{number}" for number in range(MAX_RETAINED + 3)])
    assert session.retained == tuple(f"c/{number}" for number in range(3, MAX_RETAINED + 3))
    assert retain_items(session, ["c/5"]).retained[-1] == "c/5"
    assert len(retain_items(session, ["c/5"]).retained) == MAX_RETAINED


def test_what_the_model_fetched_is_not_kept_beside_what_was_added_or_removed() -> None:
    session = Session(added=("c/manual",), removed=("c/semantic",))
    assert retain_items(session, ["c/manual", "c/semantic", "c/on_demand"]).retained == ("c/on_demand",)


def test_a_request_changes_items_and_content_at_once() -> None:
    change = SessionChange(pin=("c/manual",), unpin=("c/always",), content="site/blog")
    session = change.apply(Session(content="site"), SNAPSHOT)
    assert session == Session(added=("c/manual",), removed=("c/always",), content="site/blog")
    assert SessionChange(content="site/blog").apply(session, SNAPSHOT) is session


def make_pick(name: str, message: int = 0, picked: int = 0) -> StickyPick:
    return StickyPick(name, message, "digest", picked)


def test_picks_of_requests_at_the_same_time_are_all_kept() -> None:
    a, b, c = (make_pick(name) for name in "abc")
    base = Session(sticky=(a,))
    one, other = StickyChange((a,), (a, b)), StickyChange((a,), (a, c))
    assert other.apply(one.apply(base)).sticky == (a, b, c)
    assert one.apply(other.apply(base)).sticky == (a, c, b)


def test_what_one_request_drops_another_does_not_bring_back_unless_it_picked_it() -> None:
    a, b, again = make_pick("a"), make_pick("b"), make_pick("a", 3, 3)
    base = Session(sticky=(a, b))
    assert StickyChange((a, b), (b,)).apply(base).sticky == (b,)
    assert StickyChange((a, b), (b, again)).apply(base).sticky == (again, b)
    gone = StickyChange((a, b), (b,)).apply(base)
    assert StickyChange((a, b), (a, b)).apply(gone).sticky == (b,)


def test_a_change_that_changes_nothing_keeps_the_state() -> None:
    session = Session(sticky=(make_pick("a"),))
    assert StickyChange(session.sticky, session.sticky).apply(session) is session


def test_picks_are_bounded() -> None:
    full = Session(sticky=tuple(make_pick(str(number)) for number in range(MAX_STICKY)))
    assert StickyChange((), (make_pick("new"),)).apply(full).sticky[-1].id == "new"
    assert len(StickyChange((), (make_pick("new"),)).apply(full).sticky) == MAX_STICKY
