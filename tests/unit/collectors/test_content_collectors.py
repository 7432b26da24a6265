"""What surrounds a node, what it is connected with, what the user did: with the scores and limits that are promised."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from gateway.collectors.activity import ActivityCollector
from gateway.collectors.focus import FocusCollector
from gateway.collectors.included import IncludedCollector
from gateway.collectors.preferences import PreferenceCollector
from gateway.collectors.relations import RelationCollector
from gateway.domain.collector import Findings
from gateway.domain.content import ActivityKind, NodeActivity
from gateway.domain.hints import ContextHints
from gateway.domain.principal import Principal
from gateway.domain.scope import ContextRequest
from gateway.domain.snapshot import Snapshot
from tests.support.content_orders import FakeContent, applies, make_order

Policies = Callable[[str], Snapshot]

TREE = """
content:
  space:
    title: Space
    body: The space of the team.
    children:
      plans:
        title: Plans
        body: What we plan.
        children:
          before-2: {title: Two before, body: B2.}
          before-1: {title: One before, body: B1.}
          launch:
            id: launch
            title: Launch
            type: task
            body: Launch the site in May.
            properties: {status: open, due: 2026-05-01, owners: [anna, bert]}
            links: [{to: team, type: owner}, {to: space/notes}, {to: hidden}, {to: nowhere}]
            children:
              c1: {title: First, body: C1.}
              c2: {title: Second, body: C2.}
              c3: {title: Third, body: C3.}
              c4: {title: Fourth, body: C4.}
              c5: {title: Fifth, body: C5.}
              c6: {title: Sixth, body: C6.}
              silent: {title: Without a text}
          after-1: {title: One after, body: A1.}
          after-2: {title: Two after, body: A2.}
          after-3: {title: Three after, body: A3.}
      notes: {title: Notes, body: Notes of the team., links: [{to: far}]}
      team: {id: team, title: The team, type: row, body: Anna and Bert., links: [{to: boss, type: head}]}
      boss: {id: boss, title: The boss, body: Carla.}
      far: {id: far, title: Far, body: Far away.}
      hidden: {id: hidden, body: A secret., readers: [group:board], children: {deep: {id: deep, body: Deeper.}}}
      fan: {title: A fan, body: I like it., links: [launch]}
      spy: {title: A spy, body: Seen., readers: [group:board], links: [launch]}
  empty: {title: Empty, children: {page: {title: Page}}}
"""


@pytest.fixture
def tree(policies: Policies) -> Snapshot:
    return policies(TREE)


@pytest.fixture
def content(tree: Snapshot) -> FakeContent:
    return FakeContent(tree)


def scores(found: Findings) -> dict[str, float]:
    return {one.id.rpartition("/")[2]: round(one.score, 2) for one in found.items}


LAUNCH = ContextRequest(content="launch")


async def test_the_focus_is_surrounded_by_ancestors_children_and_neighbours_with_falling_scores(
    tree: Snapshot, content: FakeContent
) -> None:
    focus = FocusCollector(content)
    found = await focus.collect(make_order(focus, tree, LAUNCH))
    assert scores(found) == {
        "launch": 1.0,
        **{"plans": 0.9, "space": 0.8},
        **{"c1": 0.85, "c2": 0.8, "c3": 0.75, "c4": 0.7, "c5": 0.65},
        **{"before-1": 0.8, "after-1": 0.75, "before-2": 0.7, "after-2": 0.65},
        "launch#summary": 0.8,
    }
    first = found.items[0]
    assert first.text == "status: open\ndue: 2026-05-01\nowners: anna, bert\n\nLaunch the site in May."
    assert (first.breadcrumb, first.type, first.distance) == (("Space", "Plans"), "task", 0)
    assert {one.id: one.distance for one in found.items if "#" not in one.id}["space/plans/before-1"] == 2
    assert found.items[-1].text.startswith("- First (page)\n- Second (page)")
    assert "Without a text" in found.items[-1].text
    assert len(content.reads) == 1, "all texts are read at once"
    assert found.truncated, "there are more children"


async def test_options_and_hints_bound_what_surrounds_the_focus(tree: Snapshot, content: FakeContent) -> None:
    focus = FocusCollector(content)
    few = await focus.collect(
        make_order(focus, tree, LAUNCH, ancestor_depth=1, sibling_count=1, children_limit=1, summary=False)
    )
    assert list(scores(few)) == ["launch", "plans", "c1", "before-1", "after-1"]
    alone = await focus.collect(make_order(focus, tree, replace(LAUNCH, hints=ContextHints(max_depth=0))))
    assert list(scores(alone)) == ["launch"]
    near = await focus.collect(make_order(focus, tree, replace(LAUNCH, hints=ContextHints(max_depth=1))))
    assert {"plans", "c1"} <= scores(near).keys()
    assert not {"space", "before-1"} & scores(near).keys()


async def test_long_texts_around_the_focus_are_excerpts_and_the_focus_itself_is_whole(
    tree: Snapshot, content: FakeContent
) -> None:
    long = "The first part. " + "Something else. " * 100 + "\nThe budget is in the last part."
    for id in ("launch", "space/plans"):
        content.changes[id] = replace(tree.contents[id], body=long, properties={})
    focus = FocusCollector(content)
    found = await focus.collect(make_order(focus, tree, LAUNCH, "Where is the budget?", excerpt=200))
    texts = {one.id: one.text for one in found.items}
    assert texts["launch"] == long
    assert "budget is in the last part" in texts["space/plans"]
    assert len(texts["space/plans"]) < 210


async def test_nothing_is_found_of_nodes_that_say_nothing(tree: Snapshot, content: FakeContent) -> None:
    focus = FocusCollector(content)
    found = await focus.collect(make_order(focus, tree, ContextRequest(content="empty/page")))
    assert (found.items, found.considered) == ((), 0)


async def test_references_links_and_backlinks_are_followed_two_steps_by_those_who_may_read_them(
    tree: Snapshot, content: FakeContent
) -> None:
    relations = RelationCollector(content)
    found = await relations.collect(make_order(relations, tree, LAUNCH))
    assert scores(found) == {"team": 0.75, "notes": 0.7, "boss": 0.65, "fan": 0.65, "far": 0.6}
    assert {one.id: one.why for one in found.items}["boss"] == "linked as head from The team"
    assert found.considered == 5, "what may not be read is not even counted"
    board = Principal("board", groups=frozenset({"board"}))
    all_of_them = await relations.collect(make_order(relations, tree, LAUNCH, who=board))
    assert {"hidden", "spy"} <= scores(all_of_them).keys()


async def test_depth_and_number_of_relations_are_bounded(tree: Snapshot, content: FakeContent) -> None:
    relations = RelationCollector(content)
    direct = await relations.collect(make_order(relations, tree, LAUNCH, max_depth=1))
    assert list(scores(direct)) == ["team", "notes", "fan"]
    few = await relations.collect(make_order(relations, tree, LAUNCH, max_items=2, backlinks=False))
    assert (list(scores(few)), few.truncated) == (["team", "notes"], True)
    hinted = replace(LAUNCH, hints=ContextHints(max_depth=0))
    assert not (await relations.collect(make_order(relations, tree, hinted))).items


async def test_a_focused_database_shows_its_rows(policies: Policies) -> None:
    rows = ", ".join(f"r{number}: {{type: row, properties: {{name: Row {number}}}}}" for number in range(12))
    snapshot = policies(f"content: {{people: {{type: database, children: {{{rows}}}}}}}")
    relations = RelationCollector(FakeContent(snapshot))
    found = await relations.collect(make_order(relations, snapshot, ContextRequest(content="people")))
    assert [one.text for one in found.items] == [f"name: Row {number}" for number in range(10)]
    assert {one.score for one in found.items} == {0.75}


async def test_edits_come_before_views_and_what_is_too_old_or_hidden_is_left_out(
    tree: Snapshot, content: FakeContent
) -> None:
    now, hour = 1_000_000.0, 3600.0
    edit, view = ActivityKind.EDIT, ActivityKind.VIEW
    content.activity = [
        NodeActivity("team", "user:anna", edit, now - 2 * hour),
        NodeActivity("boss", "user:anna", edit, now - hour),
        NodeActivity("boss", "user:anna", view, now - hour),
        NodeActivity("far", "user:anna", view, now),
        NodeActivity("launch", "user:anna", view, now),
        NodeActivity("hidden", "user:anna", edit, now),
        NodeActivity("space/notes", "user:anna", edit, now - 80 * hour),
        NodeActivity("space/fan", "user:bert", edit, now),
    ]
    activity = ActivityCollector(content, clock=lambda: now)
    found = await activity.collect(make_order(activity, tree, replace(LAUNCH, user="anna")))
    assert scores(found) == {"boss": 0.6, "team": 0.58, "far": 0.5}
    assert [one.affinity for one in found.items] == [1.0, 1.0, 0.75]
    few = make_order(activity, tree, replace(LAUNCH, user="anna"), recent_edits=1, recent_views=0, max_age_hours=1.5)
    assert list(scores(await activity.collect(few))) == ["boss"]


async def test_named_nodes_come_in_if_the_caller_may_read_them(tree: Snapshot, content: FakeContent) -> None:
    included = IncludedCollector(content)
    asked = ContextRequest(hints=ContextHints(include=frozenset({"boss", "space/notes", "hidden", "deep", "nothing"})))
    found = await included.collect(make_order(included, tree, asked))
    assert scores(found) == {"boss": 0.95, "notes": 0.95}


PREFERENCES = """
content:
  preferences:
    children:
      a: {id: "preferences:user:anna", body: Short answers., readers: ["user:anna"]}
      b: {id: "preferences:key:anna", body: Long answers.}
      c: {id: "preferences:bert", body: A name that says nothing.}
      d: {id: "preferences@acme:user:anna", body: Answers of Acme.}
"""


@pytest.mark.parametrize(
    ("workspace", "key", "user", "texts"),
    [
        ("default", "site", "anna", ["Short answers."]),
        ("default", "anna", None, ["Long answers."]),
        ("default", "anna", "anna", ["Short answers."]),
        ("default", "site", "bert", []),
        ("default", "bert", None, []),
        ("default", "site", "key:anna", []),
        ("acme", "site", "anna", ["Answers of Acme."]),
        ("acme", "anna", None, []),
        ("other", "site", "anna", []),
    ],
)
async def test_preferences_are_those_of_one_user_or_key_in_one_workspace(
    policies: Policies, workspace: str, key: str, user: str | None, texts: list[str]
) -> None:
    snapshot = policies(PREFERENCES)
    preferences = PreferenceCollector(FakeContent(snapshot))
    who = Principal(key, workspace, rights=frozenset({"act_as_user"}))
    found = await preferences.collect(make_order(preferences, snapshot, ContextRequest(user=user), who=who))
    assert [one.text for one in found.items] == texts
    assert applies(preferences, snapshot, ContextRequest())


async def test_preferences_that_a_workspace_has_stored_are_its_own(policies: Policies) -> None:
    snapshot = policies(PREFERENCES)
    content = FakeContent(snapshot)
    content.changes = {"preferences:user:anna": snapshot.contents["preferences:user:anna"]}
    stored = replace(snapshot, contents={})
    preferences = PreferenceCollector(content)
    who = Principal("site", "other", rights=frozenset({"act_as_user"}))
    found = await preferences.collect(make_order(preferences, stored, ContextRequest(user="anna"), who=who))
    assert [one.text for one in found.items] == ["Short answers."]


async def test_collectors_tell_of_nodes_that_were_too_large_to_be_read(tree: Snapshot) -> None:
    for collector in (FocusCollector, RelationCollector):
        for most, complete in ((None, True), (2, False)):
            asked = collector(FakeContent(tree, most=most))
            found = await asked.collect(make_order(asked, tree, LAUNCH))
            assert (found.unread == 0) is complete


async def test_the_focus_can_be_summarized_and_what_surrounds_it_is_cut(tree: Snapshot, content: FakeContent) -> None:
    focus = FocusCollector(content)
    found = await focus.collect(make_order(focus, tree, LAUNCH, truncate="summarize"))
    assert {one.truncate for one in found.items if one.id == "launch"} == {"summarize"}
    assert "summarize" not in {one.truncate for one in found.items if one.id != "launch"}


def test_only_requests_about_content_ask_for_it(tree: Snapshot, content: FakeContent, policies: Policies) -> None:
    focus, activity = FocusCollector(content), ActivityCollector(content)
    plain, typed = ContextRequest(), ContextRequest(type="chat")
    hinted = ContextRequest(hints=ContextHints(prioritize_types=("task",)))
    assert [applies(focus, tree, one) for one in (plain, typed, LAUNCH)] == [False, False, True]
    assert [applies(activity, tree, one) for one in (plain, typed, hinted, LAUNCH)] == [False, True, True, True]
    assert applies(activity, tree, plain, always=True)
    assert not applies(PreferenceCollector(content), tree, LAUNCH)
    assert not applies(activity, policies("contexts: {}"), typed), "there is no content"
