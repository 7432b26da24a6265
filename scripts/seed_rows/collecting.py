"""Collectors of content: what is found around the focus, with which scores and limits."""

from datetime import UTC, datetime, timedelta
from typing import Any

from scripts.seed_rows.bench import Bench
from scripts.seed_rows.checks import expect, expect_in, expect_none_in, expect_true, find_one, rows

RAW = "by-semantic"  # the agent whose scores are those of the collectors


def list_scores(shown: dict[str, Any], collector: str) -> dict[str, float]:
    """What a collector found, by id."""
    return {one["id"]: one["score"] for one in shown["selection"]["injected"] if one["via"] == collector}


def wait_until_indexed(bench: Bench) -> None:
    """Until a search sees all nodes, and has their vectors: the first one starts to index them."""

    def is_indexed() -> bool:
        shown = bench.resolve("Where does our money lie?", agent=RAW, type="search")
        nodes = [one for one in shown["collectors"] if one["name"] == "nodes"]
        return not nodes or (not nodes[0]["truncated"] and nodes[0]["considered"] > 0)

    if not bench.known.get("indexed"):
        bench.wait_for(is_indexed, "the nodes are indexed")
        bench.known["indexed"] = True


@rows("001.1.2", "001.2.1")
def see_the_focused_node(bench: Bench) -> str:
    shown = bench.resolve("What is this?", agent=RAW, content="returns")
    expect(list_scores(shown, "focus").get("returns"), 1.0, "score of the focus")
    sent = bench.ask("What is this?", agent=RAW, content="returns")
    first = sent.section("Focused Content").splitlines()[:3]
    expect(first[0], "[Return policy] [page]")
    expect(first[2], "Customers may return lamps within thirty days.")
    return "the body of the focus stands first in Focused Content, score 1.0"


@rows("001.2.2", "001.6.4")
def see_three_ancestors(bench: Bench) -> str:
    found = list_scores(bench.resolve("What is this?", agent=RAW, content="returns"), "focus")
    above = {id: found.get(id) for id in ("terms", "service", "shop", "wiki")}
    expect(above, {"terms": 0.9, "service": 0.8, "shop": 0.7, "wiki": None})
    expect_in(bench.ask("Hm?", agent=RAW, content="returns").section("Focused Content"), "The terms of sale.")
    return f"ancestors {above}: three of four"


@rows("001.2.3", "001.6.4")
def see_two_siblings_on_either_side(bench: Bench) -> str:
    found = list_scores(bench.resolve("What is this?", agent=RAW, content="returns"), "focus")
    beside = {id: score for id, score in found.items() if id.startswith(("before", "after"))}
    expect(beside, {"before3": 0.8, "after1": 0.75, "before2": 0.7, "after2": 0.65})
    expect_in(bench.ask("Hm?", agent=RAW, content="returns").section("Focused Content"), "This is before number 3.")
    return f"siblings {beside}: two before, two after"


@rows("001.2.4", "001.6.4")
def see_five_children(bench: Bench) -> str:
    found = list_scores(bench.resolve("What is this?", agent=RAW, content="returns"), "focus")
    below = {id: score for id, score in found.items() if id.startswith("step")}
    expect(below, {"step1": 0.85, "step2": 0.8, "step3": 0.75, "step4": 0.7, "step5": 0.65})
    expect_in(bench.ask("Hm?", agent=RAW, content="returns").section("Focused Content"), "This is step number 5.")
    return f"children {below}: five of seven"


@rows("001.2.5")
def see_the_summary_of_a_page(bench: Bench) -> str:
    focused = bench.ask("What is on this page?", agent=RAW, content="returns").section("Focused Content")
    expect_in(focused, "\n".join(f"- Step {n} (page)" for n in range(1, 8)))
    return "a list of all seven children by title and type"


@rows("001.1.3", "001.2.8")
def see_rows_of_a_database(bench: Bench) -> str:
    shown = bench.resolve("Who is this?", agent=RAW, content="row-1")
    expect(list_scores(shown, "relations").get("order-1"), 0.75, "a related row")
    expect_in(bench.ask("Who is this?", agent=RAW, content="row-1").section("Connected Items"), "item: Lumo lamp")
    database = bench.resolve("Who is here?", agent=RAW, content="customers")
    found = list_scores(database, "relations") | list_scores(database, "focus")
    expect_true({"row-1", "row-2"} <= found.keys(), f"rows of the focused database are found: {found}")
    expect_in(bench.ask("Who is here?", agent=RAW, content="customers").system, "city: Bergen", "city: Oslo")
    return "a row brings its related row with .75; a focused database brings its rows"


@rows("001.2.9", "001.2.10")
def see_links_and_backlinks(bench: Bench) -> str:
    found = list_scores(bench.resolve("What is this?", agent=RAW, content="returns"), "relations")
    one_step = {id: found.get(id) for id in ("supplier", "refunds", "complaints")}
    expect(one_step, {"supplier": 0.75, "refunds": 0.7, "complaints": 0.65})
    connected = bench.ask("What is this?", agent=RAW, content="returns").section("Connected Items")
    expect_in(connected, "Halden delivers all lamps.", "Money comes back within a week.", "Stay polite.")
    return f"typed link, link and backlink: {one_step}"


@rows("001.6.6")
def see_the_limits_of_relations(bench: Bench) -> str:
    found = list_scores(bench.resolve("What is this?", agent=RAW, content="returns"), "relations")
    expect(found.get("bank"), 0.6, "the second step")
    expect_true("branch" not in found, "the third step is not taken")
    shown = bench.resolve("What is this?", agent=RAW, content="hub")
    expect(len(list_scores(shown, "relations")), 10, "of twelve links")
    expect(find_one(shown["collectors"], name="relations")["truncated"], True)
    return "two steps deep, ten of twelve links"


@rows("001.2.6")
def see_nodes_that_a_search_finds(bench: Bench) -> str:
    wait_until_indexed(bench)
    shown = bench.resolve("In which city is our bank?", agent=RAW, type="search")
    found = list_scores(shown, "nodes")
    expect_true(found.get("bank", 0) >= 0.6, f"the bank is found: {found}")
    expect_true(all(score >= 0.6 for score in found.values()), f"nothing below the threshold: {found}")
    sent = bench.ask("In which city is our bank?", agent=RAW, type="search")
    expect_in(sent.section("Related Content"), "[Bank] [page]", "Our bank is in Bergen.")
    return f"Related Content has the page about the bank: {found}"


@rows("001.2.6")
def see_that_search_finds_meanings(bench: Bench) -> str:
    """No word of the question stands in the page."""
    wait_until_indexed(bench)
    question = "How should we behave towards unhappy buyers?"

    def search() -> dict[str, float]:
        return list_scores(bench.resolve(question, agent=RAW, type="search"), "nodes")

    found = (
        search() if bench.blind else bench.wait_for(lambda: search() if "complaints" in search() else None, "vectors")
    )
    expect_true("complaints" in found, f"the page about complaints is found: {found}")
    return f"a question without a word of the page finds it: {found}"


@rows("001.7.5", "001.2.7")
def see_that_search_respects_readers(bench: Bench) -> str:
    wait_until_indexed(bench)
    question = "Are discounts on lamps negotiable?"
    hidden = bench.ask(question, agent=RAW, type="search")
    expect_none_in(str(hidden.sent), "Discounts on lamps are negotiable.")
    seen = bench.ask(question, agent=RAW, type="search", key="staff")
    expect_in(seen.section("Related Content"), "Discounts on lamps are negotiable.")
    return "the staff's page goes to keys of the staff only"


@rows("001.1.6", "001.2.11", "001.2.12", "001.6.7")
def see_recent_activity(bench: Bench) -> str:
    edited, viewed = [f"spoke{n}" for n in range(1, 13)], [f"step{n}" for n in range(1, 8)]
    for kind, nodes in (("edit", edited), ("view", viewed)):
        for node in nodes:
            bench.manage("POST", f"/content/{node}/activity", {"user": "grace", "kind": kind})
    said: dict[str, Any] = {"agent": RAW, "type": "chat", "user": "grace"}

    def is_noted() -> bool:
        return len(bench.manage("GET", "/activity?user=grace")["items"]) == 19

    bench.wait_for(is_noted, "activity is stored")
    found = list_scores(bench.resolve("Hm?", **said), "activity")
    edits = {id: score for id, score in found.items() if id in edited}
    views = {id: score for id, score in found.items() if id in viewed}
    expect(sorted(edits.values(), reverse=True), [round(0.6 - 0.02 * n, 2) for n in range(10)], "ten of twelve edits")
    expect(sorted(views.values(), reverse=True), [round(0.5 - 0.02 * n, 2) for n in range(5)], "five of seven views")
    expect((edits.get("spoke12"), views.get("step7")), (0.6, 0.5), "the latest")
    expect_in(bench.ask("Hm?", **said).section("Recent Activity"), "This is spoke number 12.", "This is step number 7.")
    old = (datetime.now(UTC) - timedelta(hours=73)).timestamp()
    bench.change_store("UPDATE activity SET at = ? WHERE node LIKE ?", old, "spoke1%")
    bench.change_store("UPDATE activity SET at = ? WHERE node = ?", old, b"spoke12")
    left = list_scores(bench.resolve("Hm?", **said), "activity")
    expect_true("spoke12" not in left, "what is older than 72 hours is not shown")
    expect_true("spoke9" in left, "the others are")
    return "ten edits from .6, five views from .5, falling by .02; 73 hours ago is too old"


@rows("001.1.16")
def see_hints_that_include_and_exclude(bench: Bench) -> str:
    hints = {"include": ["minutes"], "exclude": ["step1", "supplier"]}
    shown = bench.resolve("What is this?", agent=RAW, content="returns", hints=hints)
    placed = [one["id"] for one in shown["selection"]["injected"] if one["level"] != "global"]
    expect(placed[:2], ["returns", "minutes"], "what is included comes right after the focus")
    expect_true(not {"step1", "supplier"} & set(placed), "what is excluded is left out")
    reasons = {one["id"]: one["reason"] for one in shown["selection"]["dropped"]}
    expect(reasons.get("supplier"), "excluded")
    expect_in(bench.ask("Hm?", agent=RAW, content="returns", hints=hints).system, "We talked about tasks")
    return "minutes is brought in, step1 and supplier are dropped as excluded"


@rows("001.1.17")
def see_the_depth_of_hints(bench: Bench) -> str:
    def look(depth: int) -> set[str]:
        shown = bench.resolve("What?", agent=RAW, content="returns", hints={"max_depth": depth})
        return {one["id"] for one in shown["selection"]["injected"] if one["via"] in ("focus", "relations")}

    expect(look(0), {"returns"}, "depth 0")
    near = look(1)
    expect_true({"returns", "terms", "step1", "refunds"} <= near, f"depth 1 has parent, children and links: {near}")
    expect_true(not {"service", "before3", "bank"} & near, f"depth 1 goes no further: {near}")
    expect_true({"service", "before3", "bank"} <= look(2), "depth 2 has grandparents, siblings and links of links")
    return "max_depth 0, 1 and 2 widen what is collected"


@rows("001.1.14")
def see_prioritized_types(bench: Bench) -> str:
    wait_until_indexed(bench)
    shown = bench.resolve("Hm?", agent="clerk", type="chat", hints={"prioritize_types": ["contact"]})
    related = [one for one in shown["selection"]["injected"] if one["via"] == "nodes"]
    expect_true("supplier" in [one["id"] for one in related], "nodes of the type are looked for")
    plain = bench.resolve("Hm?", agent="by-type", content="returns")
    wanted = bench.resolve("Hm?", agent="by-type", content="returns", hints={"prioritize_types": ["contact"]})
    scores = [find_one(one["selection"]["injected"], id="supplier")["score"] for one in (plain, wanted)]
    expect(scores, [0.5, 1.0], "type score without and with the hint")
    return "a contact is found by its type alone; its type score rises from .5 to 1"


@rows("001.1.15")
def see_the_time_range(bench: Bench) -> str:
    bench.manage("POST", "/content", {"id": "news", "key": "news", "parent": "complaints", "body": "Fresh news."})
    now = datetime.now(UTC)

    def ask(first_day: int, last_day: int) -> tuple[bool, str | None]:
        days = [(now + timedelta(days=one)).isoformat() for one in (first_day, last_day)]
        said: dict[str, Any] = {"agent": "wide", "content": "complaints"}
        said["hints"] = {"time_range": {"start": days[0], "end": days[1]}}
        dropped = {one["id"]: one["reason"] for one in bench.resolve("Hm?", **said)["selection"]["dropped"]}
        return "Fresh news." in bench.ask("Hm?", **said).system, dropped.get("news")

    try:
        expect(ask(-1, 1), (True, None), "changed within the range")
        expect(ask(-400, -30), (False, "excluded"), "changed after the range")
        expect(ask(1, 30), (False, "excluded"), "changed before the range")
    finally:
        bench.manage("DELETE", "/content/news")
    return "a node changed today is shown for a range around today, and excluded by others"


@rows("001.2.13", "001.6.8")
def see_collectors_switched_off(bench: Bench) -> str:
    quiet = bench.resolve("Hm?", agent="quiet", content="returns")
    names = [one["name"] for one in quiet["collectors"]]
    expect_true("relations" not in names and "focus" in names, f"relations is off, focus is on: {names}")
    below = [one["id"] for one in quiet["selection"]["injected"] if one["id"].startswith("step")]
    expect(below, ["step1"], "children_limit: 1")
    expect_none_in(bench.ask("Hm?", agent="quiet", content="returns").system, "Connected Items")
    return f"an agent without relations and with one child: {names}"


@rows("001.1.5")
def see_preferences(bench: Bench) -> str:
    own = bench.ask("What is this?", agent="clerk", content="returns", user="ada")
    expect_in(own.section("Focused Content"), "Answer briefly.")
    other = bench.ask("What is this?", agent="clerk", content="returns", user="bob")
    expect_none_in(str(other.sent), "Answer briefly.")
    return "ada's preferences go with ada's requests only"
