"""The knowledge graph: what of it goes into requests, by agent and tier."""

import json
from typing import Any

import yaml

from scripts.seed_rows.bench import Bench, SeenExchange, open_bench
from scripts.seed_rows.checks import expect, expect_in, expect_none_in, expect_order, expect_true, find_one, rows
from scripts.seed_rows.graph import KNOWLEDGE_AGENTS, PRESETS, TIED, TURBINES

QUESTION = "Which limit does the orders endpoint accept?"
MANY = "Turbines"
BEST = "enterprise"  # the key that gets everything


def read_graph(sent: SeenExchange) -> dict[str, Any]:
    """The fragment that was sent, parsed."""
    return dict(yaml.safe_load(sent.section("Knowledge").partition("[yaml]\n")[2]) or {})


def ask(bench: Bench, agent: str, question: str = QUESTION, key: str = BEST, **said: Any) -> dict[str, Any]:
    return read_graph(bench.ask(question, agent=agent, key=key, **said))


def list_names(graph: dict[str, Any]) -> list[str]:
    return [one["name"] for one in graph.get("entities", ())]


def find_collector(bench: Bench, agent: str, question: str, **said: Any) -> dict[str, Any]:
    shown = bench.resolve(question, agent=agent, key=BEST, **said)
    return find_one(shown["collectors"], name="knowledge")


@rows("002.1.1", "002.1.3", "002.4.9")
def see_entities_relationships_and_axioms(bench: Bench) -> str:
    seen = {}
    for agent in ("novice", "editor", "tuning", "copilot"):
        graph = ask(bench, agent)
        names = list_names(graph)
        expect_true({"Orders endpoint", "Limit"} <= set(names), f"{agent}: {names}")
        expect_true({"from": "Orders endpoint", "type": "accepts", "to": "Limit"} in graph["relationships"], agent)
        expect_in(str(graph["axioms"]), "Every list endpoint pages with a limit.")
        seen[agent] = len(names)
    return f"entities by agent {seen}, with their relationship and axiom, in the outgoing request"


@rows("002.1.2")
def see_name_priority_and_switch(bench: Bench) -> str:
    names = [one["name"] for one in bench.resolve(QUESTION, agent="novice", key=BEST, content="returns")["collectors"]]
    expect_true("knowledge" in names, f"it has a name: {names}")
    expect_true(
        names.index("focus") < names.index("nodes") < names.index("knowledge"), f"document, search, graph: {names}"
    )
    sent = bench.ask(QUESTION, agent="novice", key=BEST, content="returns")
    expect_order(sent.system, "--- Focused Content [", "--- Related Content [", "--- Knowledge [")
    early = [one["name"] for one in bench.resolve(QUESTION, agent="early", key=BEST, content="returns")["collectors"]]
    expect(early[0], "knowledge", "the first collector with priority 1")
    expect_none_in(bench.ask(QUESTION, agent="off", key=BEST).system, "Orders endpoint")
    return f"collectors in order {names}; priority: 1 puts it first, enabled: false switches it off"


@rows("002.1.4", "002.2.2", "002.4.8")
def see_an_explicit_configuration(bench: Bench) -> str:
    strict = list_names(
        ask(bench, "strict", "Turbine Endpoint 1. Turbine Endpoint 2. Turbine Endpoint 3. Turbine Endpoint 4. Limit.")
    )
    expect(len(strict), 3, "max_entities: 3")
    expect_true(all("ndpoint" in name for name in strict), f"include_types: [Endpoint]: {strict}")
    excluding = list_names(ask(bench, "excluding"))
    expect_true("Orders endpoint" in excluding and "Limit" not in excluding, f"exclude_types: [Parameter]: {excluding}")
    expect_true("Orders endpoint" in list_names(ask(bench, "custom")), "enterprise: types beyond the preset")
    expect(list_names(ask(bench, "custom", key="teams")), [], "teams: no types beyond the preset")
    return f"three endpoints of the types that are included; without {{'Limit'}}: {excluding}"


@rows("002.1.5", "002.2.6")
def see_the_default_of_unknown_agents(bench: Bench) -> str:
    count = len(list_names(ask(bench, "novice", MANY, budget=12000)))
    expect(count, 20, "max_entities of an agent without a preset")
    return f"{count} of {6 * TURBINES} entities that match"


@rows("002.2.3")
def see_the_least_relevance(bench: Bench) -> str:
    shown = bench.resolve(QUESTION, agent="novice", key=BEST)
    parts = find_one(shown["selection"]["injected"], id="knowledge")["parts"]
    expect_true(all(one["score"] >= 0.5 for one in parts), f"at least .5 by default: {parts}")
    words = "Which path and which colour does the garden have?"  # one of its words is a property
    counts = [len(list_names(ask(bench, agent, words))) for agent in ("certain", "novice", "loose")]
    expect(counts, [0, 0, 1], "min_score .99, .5 and .01")
    return f"scores {[one['score'] for one in parts]}; entities with .99, .5 and .01: {counts}"


@rows("002.2.4", "002.3.3")
def see_relationships_between_selected_entities(bench: Bench) -> str:
    graph = ask(bench, "novice")
    names = set(list_names(graph))
    ties = graph["relationships"]
    expect_true({"from": "Orders endpoint", "type": "accepts", "to": "Limit"} in ties, f"{ties}")
    expect_true(all({one["from"], one["to"]} <= names for one in ties), f"both ends are selected: {ties}")
    only = ask(bench, "strict", "List orders")
    expect_true("Orders endpoint" in list_names(only) and "accepts" not in str(only), "no tie to what is not selected")
    expect_none_in(str(ask(bench, "unrelated")), "accepts", "Every list endpoint")
    return f"{len(ties)} ties, both ends selected; none if switched off"


@rows("002.3.4")
def see_that_few_entities_are_followed(bench: Bench) -> str:
    """Twenty endpoints in a chain, each tied to the next: those of the first ten are looked up."""
    question = " ".join(f"Turbine Endpoint {n}." for n in range(20))
    graph = ask(bench, "tuning", MANY, hints={"include": [f"endpoint-{n}" for n in range(20)]}, budget=12000)
    names = list_names(graph)
    expect(len(names), 20, f"entities of tuning for {question[:30]}")
    followed = set(names[:10])
    ties = graph.get("relationships", [])
    expect_true(ties, "there are some")
    expect_true(
        all({one["from"], one["to"]} & followed for one in ties), f"each has an end among the first ten: {ties}"
    )
    return f"{len(ties)} ties, all of one of the first ten entities"


@rows("002.2.5", "002.3.5")
def see_axioms_of_the_selected_types(bench: Bench) -> str:
    graph = ask(bench, "novice")
    texts = [one["text"] for one in graph["axioms"]]
    expect_true({"Endpoint", "Parameter"} <= {one["type"] for one in graph["entities"]}, "two types have the axiom")
    expect(texts.count("Every list endpoint pages with a limit."), 1, "it is there once")
    kinds = {one["type"] for one in graph["entities"]}
    expect("Prices include VAT." in texts, "Product" in kinds, "axioms of other types are not there")
    expect_true("axioms" not in ask(bench, "unrelated"), "axioms: false")
    return f"axioms of {sorted(kinds)}: {texts}"


@rows("002.2.7")
def see_the_formats(bench: Bench) -> str:
    expect(ask(bench, "novice")["entities"][0]["name"], "Orders endpoint", "YAML by default")
    marked = bench.ask(QUESTION, agent="marked", key=BEST).section("Knowledge")
    expect_in(marked, "### Entities\n- **Orders endpoint** (Endpoint)")
    raw = bench.ask(QUESTION, agent="jsonized", key=BEST).section("Knowledge").partition("[json]\n")[2]
    expect(json.loads(raw)["entities"][0]["name"], "Orders endpoint")
    return "YAML by default; Markdown and JSON where an agent says so"


@rows("002.2.8")
def see_ten_properties(bench: Bench) -> str:
    entity = find_one(ask(bench, "novice", "Turbine Term 7", budget=12000)["entities"], name="Turbine Term 7")
    expect(list(entity["properties"]), [f"property-{n}" for n in range(1, 11)], "ten of twelve")
    expect_true(all("properties" not in one for one in ask(bench, "unrelated")["entities"]), "properties: false")
    return "the first ten of twelve properties; none if switched off"


@rows("002.2.1", "002.2.10", "002.3.6", "002.4.3")
def see_the_token_limit(bench: Bench) -> str:
    sent = bench.ask(MANY, agent="short", key=BEST)
    text = sent.section("Knowledge")
    expect_in(text, "relevant entities; the others did not fit.")
    told = find_collector(bench, "short", MANY)
    expect_true(told["truncated"], f"it is told: {told}")
    expect_true(told["total_available"] >= 3 * 20, f"all that match are counted: {told}")
    expect_true(0 < told["counts"]["entities"] < 20, f"{told['counts']}")
    whole = bench.resolve(MANY, agent="novice", key=BEST, budget=12000)
    tokens = whole["tokens"]["by_category"]["knowledge"]
    expect_true(300 < tokens <= 4000, f"an agent without a limit of its own: {tokens} tokens")
    expect_true(bench.resolve(MANY, agent="short", key=BEST)["tokens"]["by_category"]["knowledge"] <= 340, "300")
    count = told["counts"]["entities"]
    return f"max_tokens 300: {count} of {told['total_available']} entities, truncated; by default {tokens} tokens"


@rows("002.2.9", "002.2.11", "002.2.12")
def see_what_is_told_about_a_fragment(bench: Bench) -> str:
    sent = bench.ask(QUESTION, agent="novice", key=BEST)
    receipt = bench.read_receipt(sent)
    told = find_one(receipt["collectors"], name="knowledge")
    item = find_one(receipt["selection"]["injected"], id="knowledge")
    graph = read_graph(sent)
    sizes = {name: len(graph[name]) for name in ("entities", "relationships", "axioms")}
    expect(told["counts"], sizes, "counts in the receipt and in the outgoing request")
    expect([one["name"] for one in item["parts"]], list_names(graph), "entities, in their order")
    expect_true(all(0 < one["score"] <= 1 for one in item["parts"]), "each has its score")
    expect_true(
        item["tokens"] > 30 and receipt["agent"] == "novice", f"tokens {item['tokens']}, agent {receipt['agent']}"
    )
    return f"strategy knowledge, agent novice, counts {sizes}, {item['tokens']} tokens, a score for each entity"


@rows("002.2.14", "002.2.15")
def see_the_document_and_the_selection(bench: Bench) -> str:
    """Neither question names the endpoint: once the page does, once a text that the user has selected."""
    bench.manage("POST", "/content", {"id": "api", "key": "api", "title": "Orders endpoint", "body": "Under review."})
    try:
        focused = list_names(ask(bench, "tuning", "What is wrong here?", content="api"))
    finally:
        bench.manage("DELETE", "/content/api")
    items = [{"name": "Selection", "text": "The orders endpoint is slow."}]
    selected = list_names(ask(bench, "tuning", "What is wrong here?", items=items))
    plain = list_names(ask(bench, "tuning", "What is wrong here?"))
    expect(["Orders endpoint" in names for names in (focused, selected, plain)], [True, True, False])
    return "the title of the current page and the selected text are part of the query"


@rows("002.3.1", "002.3.2")
def see_the_best_of_many(bench: Bench) -> str:
    shown = bench.resolve("Turbine Concept 7", agent="simplifier", key=BEST, budget=12000)
    parts = find_one(shown["selection"]["injected"], id="knowledge")["parts"]
    scores = [one["score"] for one in parts]
    expect(parts[0]["name"], "Turbine Concept 7", "the best comes first")
    expect(scores, sorted(scores, reverse=True), "sorted")
    expect_true(all(one >= 0.6 for one in scores) and len(parts) <= 10, f"filtered and taken: {scores}")
    told = find_collector(bench, "simplifier", MANY)
    expect_true(
        told["total_available"] >= 30 and told["considered"] == 2 * TURBINES, f"more are searched than taken: {told}"
    )
    return f"{told['considered']} considered, {told['total_available']} match, {len(parts)} taken, best first"


@rows("002.3.7")
def see_the_presets(bench: Bench) -> str:
    wanted = {"editor": 30, "simplifier": 10, "tuning": 20, "summarizer": 15, "copilot": 25}
    kinds = {
        "simplifier": {"Concept", "Term"},
        "tuning": {"Endpoint", "Parameter"},
        "summarizer": {"Product", "Feature"},
    }
    parts = {"editor": (True, True), "simplifier": (False, False), "tuning": (True, True), "summarizer": (True, False)}
    parts["copilot"] = (True, True)
    seen = {}
    for name in PRESETS:
        shown = bench.resolve(MANY, agent=name, key=BEST, budget=12000)
        told = find_one(shown["collectors"], name="knowledge")
        graph = ask(bench, name, MANY, budget=12000)
        seen[name] = told["total_available"], len(list_names(graph))
        expect(len(list_names(graph)), wanted[name], f"entities of {name}")
        if name in kinds:
            expect_true({one["type"] for one in graph["entities"]} <= kinds[name], f"types of {name}")
        kind = min(kinds.get(name, {"Endpoint"}) & TIED)
        pair = ask(bench, name, f"Turbine {kind} 0. Turbine {kind} 1.")
        expect(("relationships" in pair, "axioms" in pair), parts[name], f"relationships and axioms of {name}")
    return f"matching and selected: {seen}"


@rows("002.4.1")
def see_that_a_broken_graph_is_left_out(bench: Bench) -> str:
    """Another gateway, whose stored graph is no database."""
    directory = bench.directory / "broken"
    directory.mkdir()
    (directory / "data-knowledge.db").write_bytes(b"this is no database" * 100)
    with open_bench(directory, {"agents": {"novice": KNOWLEDGE_AGENTS["novice"]}}, bench.blind) as broken:
        sent = broken.ask(QUESTION, agent="novice", key=BEST)
    expect(sent.reply.headers.get("x-context-degraded"), "graph")
    expect((sent.reply.text, sent.section("Knowledge")), ("Fine.", ""), "the answer, and what the graph says")
    return "the request goes on without it: x-context-degraded: graph"


@rows("002.4.2")
def see_that_nothing_was_found(bench: Bench) -> str:
    sent = bench.ask("Xyzzy quux?", agent="tuning", key=BEST)
    expect(sent.section("Knowledge"), "No entities found.")
    return "the section says: No entities found."


@rows("002.4.4", "002.4.5", "002.4.6", "002.4.7")
def see_the_tiers(bench: Bench) -> str:
    everything = {"entities", "relationships", "axioms"}
    wanted = {"untold": set(), "platinum": set(), "core": set(), "pro": {"entities"}, "teams": everything}
    seen = {key: set(ask(bench, "novice", key=key)) for key in wanted}
    expect(seen, wanted, "by tier; no tier and an unknown one are core")
    expect(len(list_names(ask(bench, "editor", MANY, key="pro", budget=12000))), 10, "pro has ten at most")
    expect(len(list_names(ask(bench, "novice", MANY, key="teams", budget=12000))), 20, "teams has all")
    return "core, unknown and no tier: nothing; pro: ten entities; teams: everything"
