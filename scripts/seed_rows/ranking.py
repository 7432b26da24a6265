"""The order of what collectors find: five figures and their weights."""

from typing import Any

from scripts.seed_rows.bench import Bench
from scripts.seed_rows.checks import expect, expect_order, expect_true, find_one, rows

DAY = 86_400


def find_score(bench: Bench, node: str, question: str = "Hm?", **said: Any) -> float:
    shown = bench.resolve(question, **said)
    return float(find_one(shown["selection"]["injected"], id=node)["score"])


@rows("001.3.1", "001.3.2")
def see_the_composite_score(bench: Bench) -> str:
    """A child of the focus: .85, one step away, age, type and affinity unknown."""
    said: dict[str, Any] = {"content": "returns"}
    parts = {name: find_score(bench, "step1", agent=f"by-{name}", **said) for name in ("semantic", "structural")}
    expect(parts, {"semantic": 0.85, "structural": 0.9})
    wanted = round(0.35 * 0.85 + 0.25 * 0.9 + (0.15 + 0.15 + 0.10) * 0.5, 4)
    expect(find_score(bench, "step1", agent="clerk", **said), wanted, "the weighted sum with the default weights")
    return f".35 * .85 + .25 * .9 + .4 * .5 = {wanted}; agents with other weights have other scores"


@rows("001.3.1")
def see_the_order(bench: Bench) -> str:
    shown = bench.resolve("Hm?", agent="wide", content="returns")
    scores = [one["score"] for one in shown["selection"]["injected"] if one["via"] == "focus"][1:]
    expect_true(len(scores) > 8, "there is something to sort")
    expect(scores, sorted(scores, reverse=True), "after the focus, the best first")
    focused = bench.ask("Hm?", agent="wide", content="returns").section("Focused Content")
    expect_order(focused, "[Return policy]", "[Step 1]", "[Step 2]", "[Step 3]")
    return f"{len(scores)} items of Focused Content in the order of their scores"


@rows("001.3.3")
def see_nearness(bench: Bench) -> str:
    near = {
        node: find_score(bench, node, agent="by-structural", content="returns") for node in ("terms", "shop", "after1")
    }
    expect(near, {"terms": 0.9, "shop": 0.7, "after1": 0.8}, "1 - .1 for each step")
    hints = {"include": ["bank"]}
    expect(find_score(bench, "bank", agent="by-structural", hints=hints), 0.5, "without a focus")
    return f"{near}; .5 without a focus"


@rows("001.3.4")
def see_recency(bench: Bench) -> str:
    bench.manage("POST", "/content", {"id": "aged", "key": "aged", "parent": "complaints", "body": "Once new."})
    ages: dict[int, float] = {}
    try:
        for days, passed in ((0, 0), (6, 6), (24, 18), (40, 16)):
            bench.change_store(
                "UPDATE versions SET at = at - ? WHERE object IN (SELECT object FROM objects WHERE alias = ?)",
                passed * DAY,
                b"aged",
            )
            ages[days] = round(find_score(bench, "aged", agent="by-recency", content="complaints"), 2)
    finally:
        bench.manage("DELETE", "/content/aged")
    expect(ages, {0: 1.0, 6: 0.8, 24: 0.2, 40: 0.0}, "by days since the last change")
    expect(find_score(bench, "returns", agent="by-recency", content="complaints"), 0.5, "unknown")
    return f"days since the change: {ages}; .5 if nobody knows"


@rows("001.3.5")
def see_types_that_the_question_means(bench: Bench) -> str:
    def score(node: str, question: str) -> float:
        return find_score(bench, node, question, agent="by-type", content=node)

    seen = {
        "todo, 'task'": score("task-9", "Which task is next?"),
        "todo, other": score("task-9", "What is next?"),
        "page, 'summary'": score("returns", "Give me a summary"),
        "page, other": score("returns", "What is next?"),
    }
    expect(list(seen.values()), [0.9, 0.5, 0.8, 0.5], "type scores")
    return str(seen)


@rows("001.3.6")
def see_the_affinity_of_users(bench: Bench) -> str:
    bench.manage("POST", "/content", {"id": "mine", "key": "mine", "parent": "complaints", "body": "My own page."})
    try:
        own = find_score(bench, "mine", agent="by-affinity", content="complaints")
        foreign = bench.resolve("Hm?", agent="by-affinity", content="complaints", key="staff")
        other = find_one(foreign["selection"]["injected"], id="mine")["score"]
    finally:
        bench.manage("DELETE", "/content/mine")
    expect((own, other), (1.0, 0.5), "who wrote it, and somebody else")
    return "1 for who changed it last, .5 for others"
