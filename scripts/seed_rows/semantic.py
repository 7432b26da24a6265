"""Semantic search over resources: how questions and texts are split, and what is tuned where."""

from typing import Any

from scripts.seed_rows.bench import Bench
from scripts.seed_rows.checks import expect, expect_none_in, expect_true, rows


def list_picks(bench: Bench, question: str, **said: Any) -> dict[str, float]:
    shown = bench.resolve(question, **{"agent": "seller", **said})
    return {
        one["id"]: one["score"] for one in shown["selection"]["injected"] if one["via"] in ("semantic", "expansion")
    }


def wait_for_picks(bench: Bench, question: str, wanted: str, **said: Any) -> dict[str, float]:
    if bench.blind:
        return list_picks(bench, question, **said)

    def look() -> dict[str, float] | None:
        picks = list_picks(bench, question, **said)
        return picks if wanted in picks else None

    return dict(bench.wait_for(look, f"{wanted} is embedded and found"))


@rows("004.5.1")
def see_short_sentences_searched_one_by_one(bench: Bench) -> str:
    wait_for_picks(bench, "How do I get a refund?", "lamps/refunds")
    picks = list_picks(bench, "How do I get a refund? How much is shipping?")
    expect({"lamps/refunds", "lamps/shipping"} <= picks.keys(), True, f"both are found: {picks}")
    sent = bench.ask("How do I get a refund? How much is shipping?", agent="seller")
    expect_true("within a week" in sent.system and "five euros" in sent.system, "both are sent")
    return f"two short sentences find both: {picks}"


@rows("004.5.3")
def see_entries_of_a_list_and_clauses(bench: Bench) -> str:
    wait_for_picks(bench, "How do I get a refund?", "lamps/refunds")
    bullets = list_picks(bench, "Tell me:\n- How do I get a refund\n- How much is shipping")
    expect({"lamps/refunds", "lamps/shipping"} <= bullets.keys(), True, f"entries: {bullets}")
    clauses = list_picks(bench, "How do I get a refund and how much is shipping?")
    expect({"lamps/refunds", "lamps/shipping"} <= clauses.keys(), True, f"clauses: {clauses}")
    return f"entries of a list find both: {bullets}; so do clauses: {clauses}"


@rows("004.4.18")
def see_search_switched_off(bench: Bench) -> str:
    picks = wait_for_picks(bench, "How much is shipping?", "lamps/shipping")
    expect_true("lamps/shipping" in picks, f"an agent that searches: {picks}")
    expect(list_picks(bench, "How much is shipping?", agent="unsearched"), {}, "selection.enabled: false")
    expect_none_in(bench.ask("How much is shipping?", agent="unsearched").system, "five euros")
    own = list_picks(bench, "How much is shipping?", selection={"enabled": False})
    expect(own, {}, "the same by request")
    return "an agent or a request without search gets no picks"


@rows("004.6.2")
def see_the_expansion_example(bench: Bench) -> str:
    wanted = {"related/fetch-website", "related/http-request"}
    picks = wait_for_picks(bench, "How do I authenticate?", "related/auth", agent="related")
    expect(sorted(picks), ["related/auth"], "without expansion")

    def look() -> dict[str, float] | None:
        found = list_picks(bench, "How do I authenticate?", agent="expanding")
        return found if wanted <= found.keys() else None

    found = look() or {} if bench.blind else dict(bench.wait_for(look, "tools by expansion"))
    sent = bench.ask("How do I authenticate?", agent="expanding")
    expect_true({"fetch-website", "http-request"} <= {name.replace("_", "-") for name in sent.tools}, f"{sent.tools}")
    return f"the rules bring both tools: {found}"


@rows("001.6.5", "004.4.12")
def see_the_thresholds(bench: Bench) -> str:
    wait_for_picks(bench, "How do I get a refund?", "lamps/refunds")
    all_three = {"preset": "aggressive"}
    picks = list_picks(bench, "How do I get a refund?", selection=all_three)
    fewer = list_picks(bench, "How do I get a refund?", selection={"preset": "aggressive", "top_n": 1})
    few = list_picks(bench, "How do I get a refund?", selection={"preset": "aggressive", "top_k": 1})
    expect((len(picks), len(fewer), len(few)), (3, 1, 1), "aggressive, with top_n 1, with top_k 1")
    strict = list_picks(bench, "How do I get a refund?", selection={"min_score": 0.999, "include_score": 0.999})
    expect_true("lamps/shipping" not in strict, f"{strict}")
    return f"min_score, top_n and top_k by request: {len(picks)}, {len(fewer)}, {len(few)} picks"
