"""The token budget: what is counted, cut, summarized and warned about."""

import json
from functools import cache
from typing import Any

from gateway.tokens import load_core
from scripts.seed_rows.bench import Bench
from scripts.seed_rows.checks import expect, expect_in, expect_none_in, expect_true, find_one, rows
from scripts.seed_rows.model_endpoint import SUMMARY


@cache
def load_encoding() -> Any:
    return load_core("o200k")


def count_tokens(text: str) -> int:
    """By tiktoken itself, as a whole and not in the pieces that the gateway counts."""
    return len(load_encoding().encode_ordinary(text))


@rows("000.14.4", "001.7.6", "003.2.10")
def see_that_everything_is_charged(bench: Bench) -> str:
    """Catalogue, schemas, texts and markers: the sum never exceeds the budget."""
    seen = {}
    for agent, said in (("picky", {}), ("wide", {"content": "returns"}), ("wide", {"task": "ask"})):
        for limit in (20, 150, 600, 2000):
            told = bench.resolve("How do I reset my password?", agent=agent, budget=limit, **said)["tokens"]
            expect_true(told["total"] <= limit, f"{agent} {said} with {limit}: {told}")
            expect(told["remaining"], limit - told["total"], "remaining")
            expect(sum(told["by_category"].values()), told["total"], "the sum of all categories")
            seen[limit] = told["total"]
    expect_true(seen[2000] > 150, f"a large budget is used: {seen}")
    sent = bench.ask("How do I reset my password?", agent="wide", task="ask", budget=600)
    used = count_tokens(sent.system)
    expect_true(300 < used <= 600, f"tokens in the outgoing request: {used}")
    return f"totals by budget {seen}; {used} tokens sent with a budget of 600"


@rows("000.14.5")
def see_warnings_when_always_texts_do_not_fit(bench: Bench) -> str:
    shown = bench.resolve("Hm?", agent="full")
    warned = [one for one in shown["warnings"] if one["category"] == "always"]
    expect_true(warned, f"a warning about the category: {shown['warnings']}")
    expect_true(any(char.isdigit() for char in warned[0]["message"]), f"it has the size: {warned[0]['message']}")
    receipt = bench.read_receipt(bench.ask("Hm?", agent="full"))
    expect_true(receipt["warnings"], "the receipt has it too")
    return str(warned[0]["message"])


@rows("000.14.2", "000.14.3")
def see_tokens_of_picks_and_of_the_list(bench: Bench) -> str:
    def look() -> dict[str, int]:
        told = bench.resolve("How do I reset my forgotten password?", agent="picky")["tokens"]["by_category"]
        return dict(told)

    told = look() if bench.blind else bench.wait_for(lambda: look() if look().get("semantic") else None, "a pick")
    expect_true(told.get("semantic", 0) > 0 and told.get("catalogue", 0) > 0, f"both are told: {told}")
    expect(told.get("named", 0), 0, "nothing was named")
    return f"by_category {told}"


@rows("000.14.6")
def see_a_warning_at_authoring_time(bench: Bench) -> str:
    long = "Words take up room in every request. " * 300
    resource = {"id": "long", "type": "text", "data": {"content": long}}
    bench.manage("POST", "/contexts", {"alias": "sized", "resources": [resource]})
    agent = {"alias": "sized", "contexts": ["sized"], "budget": {"total": 500}}
    warning = bench.call("POST", "/api/v1/agents", agent).headers.get("x-context-warning", "")
    bench.manage("DELETE", "/agents/sized")
    bench.manage("DELETE", "/contexts/sized")
    expect_in(warning, "500")
    return f"x-context-warning: {warning}"


@rows("001.1.10", "001.1.13")
def see_that_the_type_shifts_the_shares(bench: Bench) -> str:
    """A long page, and others that are found: either could use the whole budget."""
    question, told = "What is the capital of country 271?", {}
    for kind in ("assist", "search"):
        shown = bench.resolve(question, agent="clerk", content="atlas", type=kind, budget=2000)
        told[kind] = shown["tokens"]["by_category"]
    focused = {kind: one["focus"] for kind, one in told.items()}
    found = {kind: one.get("semantic", 0) + one.get("relations", 0) for kind, one in told.items()}
    expect_true(focused["assist"] > 1.3 * focused["search"], f"tokens of the focus: {focused}")
    expect_true(found["search"] > 1.3 * found["assist"], f"tokens of what is found: {found}")
    return f"tokens by type: for a long focus {focused}, for what is found {found}"


@rows("001.6.2", "001.1.13")
def see_the_default_shares(bench: Bench) -> str:
    """The page and the texts that are always placed have each several times their share: both keep what is reserved."""
    parts = [
        {"id": f"part-{n}", "type": "text", "data": {"content": f"Part {n}. " + "Words take up room. " * 100}}
        for n in range(20)
    ]
    bench.manage("POST", "/contexts", {"alias": "crowd", "resources": parts})
    try:
        shown = bench.resolve("Hm?", agent="clerk", content="land", contexts=["crowd"], user="reader")
        told = shown["tokens"]["by_category"]
    finally:
        bench.manage("DELETE", "/contexts/crowd")
    expect(shown["tokens"]["budget"], 4000)
    # The shares of all categories are more than the whole: 4000 of 7200 tokens each, and those of empty sections.
    expect_true(told["focus"] >= 1500, f"the focus has its share beside a crowd: {told}")
    expect_true(0.9 * 1600 * 4000 / 7200 <= told["always"] <= 1600, f"so have the others: {told}")
    alone = bench.resolve("Hm?", agent="clerk", content="land", user="reader")["tokens"]
    expect_true(alone["total"] > 3900, f"a long page alone uses the budget: {alone}")
    return f"of 4000: focus {told['focus']}, always {told['always']}; a page alone uses {alone['total']}"


@rows("001.4.6")
def see_that_cutting_follows_the_question(bench: Bench) -> str:
    sent = bench.ask("What is the capital of country 271?", agent="clerk", content="land", budget=700)
    expect_in(sent.section("Focused Content"), "The capital of country 271 is called Town271.")
    expect_none_in(sent.system, "is called Town299.")
    shown = bench.resolve("What is the capital of country 271?", agent="clerk", content="land", budget=700)
    expect(find_one(shown["selection"]["injected"], id="land")["truncated"], True)
    return "of 300 sentences, the one that answers is kept within 700 tokens"


@rows("001.4.4", "001.4.5")
def see_starts_and_ends(bench: Bench) -> str:
    start = bench.ask("Hm?", agent="starts").system
    end = bench.ask("Hm?", agent="ends").system
    expect(["Alpha begins" in start, "Omega ends" in start], [True, False], "keep_start")
    expect(["Alpha begins" in end, "Omega ends" in end], [False, True], "keep_end")
    return "keep_start has Alpha, keep_end has Omega"


@rows("001.4.7", "000.15.6")
def see_a_summary_by_a_model(bench: Bench) -> str:
    first = bench.ask("What are the rules?", agent="retold")
    expect_in(first.system, "opens door")
    expect_none_in(first.system, SUMMARY)

    def is_summarized() -> bool:
        return SUMMARY in bench.ask("What are the rules?", agent="retold").system

    bench.wait_for(is_summarized, "the summary is written")
    later = bench.ask("What are the rules?", agent="retold")
    expect_none_in(later.system, "Whoever holds key 7 ")
    asked = str(bench.endpoint.summaries[-1])
    expect_in(asked, "Whoever holds key 7 ")
    expect_none_in(asked, "What are the rules?")
    item = find_one(bench.read_receipt(later)["selection"]["injected"], id="retold/rules")
    expect((item["truncated"], item.get("summarized")), (True, True))
    return "first the best sentences, then the model's summary; the model saw the text and not the question"


@rows("001.7.9")
def see_that_tokens_are_estimated_well(bench: Bench) -> str:
    """x-context-tokens beside an independent count of the block with the encoding of gpt-4o."""
    errors = {}
    for agent, said in (("retold", {}), ("wide", {"content": "returns"}), ("wide", {"task": "ask"})):
        sent = bench.ask("Hm?", agent=agent, fields={"model": "gpt-4o"}, **said)
        told = int(sent.reply.headers["x-context-tokens"])
        schemas = (json.dumps(one, separators=(",", ":")) for one in sent.sent[0].get("tools", ()))
        real = count_tokens(sent.system) + sum(map(count_tokens, schemas))
        errors[f"{agent} {said}"] = round(told / real - 1, 4)
    expect_true(all(abs(one) <= 0.05 for one in errors.values()), f"errors: {errors}")
    return f"relative errors {errors}"
