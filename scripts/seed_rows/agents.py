"""Whole flows of assistants, contexts by request, and what is looked up elsewhere."""

from typing import Any

from scripts.seed_rows.bench import Bench
from scripts.seed_rows.checks import expect, expect_in, expect_none_in, expect_order, expect_true, find_one, rows
from scripts.seed_rows.collecting import wait_until_indexed
from scripts.seed_rows.model_endpoint import FOUND
from tests.support.upstream import call, say


@rows("001.7.1")
def see_a_page_summarized(bench: Bench) -> str:
    shares: dict[str, Any] = {"budget": 3000, "type": "assist", "content": "returns", "user": "reader"}
    sent = bench.ask("Summarize this page", agent="clerk", **shares)
    focused = sent.section("Focused Content")
    expect_order(focused, "Customers may return lamps within thirty days.", "This is step number 1.")
    told = bench.resolve("Summarize this page", agent="clerk", **shares)["tokens"]["by_category"]
    rest = sum(told.get(name, 0) for name in ("semantic", "relations", "activity"))
    expect_true(told["focus"] > 2 * rest, f"most of it is the page and its children: {told}")
    return f"tokens by category {told}"


@rows("001.7.2")
def see_overdue_tasks(bench: Bench) -> str:
    wait_until_indexed(bench)
    said: dict[str, Any] = {"agent": "clerk", "type": "chat", "hints": {"prioritize_types": ["todo", "kanban_card"]}}
    sent = bench.ask("What tasks are overdue?", **said)
    related = sent.section("Related Content")
    expect_in(related, "[Call the printer] [todo]", "status: overdue", "The flyers are late.")
    expect_order(sent.system, "[Call the printer] [todo]", "[Move the order database] [todo]")
    expect_none_in(sent.system, "Focused Content")
    return "Related Content has the task that is overdue, before others; there is no focus"


@rows("001.7.3")
def see_a_task_broken_down(bench: Bench) -> str:
    wait_until_indexed(bench)
    sent = bench.ask("Break this task into subtasks", agent="clerk", content="task-456", type="assist", budget=2000)
    expect_true(sent.section("Focused Content").startswith("[Move the order database] [todo]"), "the task comes first")
    expect_in(sent.system, "[Move the user database] [todo]", "Took three days: copy, switch, verify.")
    return "the task, and the similar one with how it was done"


@rows("000.7.4")
def see_the_global_default(bench: Bench) -> str:
    """An agent whose only context has no resources: nothing was found, so the default applies."""
    sent = bench.ask("Hm?", agent="emptied")
    expect_in(sent.system, "The global default.")
    expect_none_in(bench.ask("Hm?", agent="assistant").system, "The global default.")
    return "an agent with an empty context gets the global default"


@rows("000.7.5")
def see_contexts_of_a_request(bench: Bench) -> str:
    sent = bench.ask("Hm?", agent="assistant", contexts=["extra"])
    expect_in(sent.system, "A context that the request names.", "Answer in English.")
    sources = bench.resolve("Hm?", agent="assistant", contexts=["extra"])["sources"]
    find_one(sources, context="extra")
    return f"sources {[(one['level'], one['context']) for one in sources]}"


@rows("000.2.15")
def see_a_retriever(bench: Bench) -> str:
    before = len(bench.endpoint.searches)
    sent = bench.ask("Who paid invoice 4711?", agent="accountant")
    expect(bench.endpoint.searches[before:], [{"query": "Who paid invoice 4711?", "limit": 3}], "what was searched")
    expect_in(sent.section("Related Content"), FOUND["text"], FOUND["source"])
    return "the question went to the search endpoint, and its passage with the source into the request"


@rows("000.13.13")
def see_the_list_of_resources(bench: Bench) -> str:
    sent = bench.ask("What is there?", call("list_context_resources"), say("Fine."), agent="assistant")
    (listed,) = sent.tool_results
    expect_in(listed, "flow/z", "Letters", "flow/plain", "text resource")
    return f"the tool says {listed[:100]}"


@rows("000.10.7")
def see_a_suggestion_when_other_content_is_named(bench: Bench) -> str:
    sent = bench.ask("And how is it in the Wiki, under Complaints?", agent="clerk", content="board")
    suggested = sent.reply.headers.get("x-context-suggested-content", "")
    expect_true(suggested, "the reply names other content")
    expect(bench.read_receipt(sent)["content"], "board", "the content that is used")
    return f"x-context-suggested-content: {suggested}; the request stays about the board"


@rows("004.8.14")
def see_shared_selections(bench: Bench) -> str:
    def count(outcome: str) -> float:
        text = str(bench.call("GET", "/metrics").body)
        lines = [line for line in text.splitlines() if line.startswith("gateway_selection_cache_total")]
        return sum(float(line.rpartition(" ")[2]) for line in lines if outcome in line)

    bench.ask("How much is shipping to the harbour?", agent="seller")
    before = count("hit")
    bench.ask("How much is shipping to the harbour?", agent="seller", session="other-conversation")
    expect_true(count("hit") > before, f"hits before {before}, after {count('hit')}")
    return f"hits of the selection cache before {before}, after {count('hit')}"
