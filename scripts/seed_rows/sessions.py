"""Conversations: what they start with, remember and forget, and the settings that they override."""

from typing import Any

from scripts.seed_rows.bench import Bench, SeenExchange
from scripts.seed_rows.checks import expect, expect_in, expect_none_in, expect_true, find_one, rows
from tests.support.upstream import call, say

A, B, C, X, Y = "Rule A", "Rule B", "Rule C", "Reference X", "Reference Y"


def list_names(sent: SeenExchange) -> list[str]:
    """Which of the flow's items stand in the outgoing request."""
    return [name for name in (A, X, B, C, Y) if f"[{name}]\n" in sent.system]


def wait_until_searchable(bench: Bench) -> None:
    def is_found() -> bool:
        shown = bench.resolve("How do I authenticate?", agent="assistant")
        return any(one["id"] == "flow/c" for one in shown["selection"]["injected"])

    if not bench.known.get("searchable") and not bench.blind:
        bench.wait_for(is_found, "resources are embedded")
        bench.known["searchable"] = True


@rows("C.5", "004.1.6", "004.1.7", "004.1.10", "004.1.11", "004.1.12", "004.1.14")
def see_the_flow_example(bench: Bench) -> str:
    wait_until_searchable(bench)
    said: dict[str, Any] = {"agent": "assistant", "session": "flow"}
    bench.manage("POST", "/sessions/flow/items", {"id": "flow/b"})
    seen = [
        list_names(bench.ask(q, **said)) for q in ("How do I authenticate?", "What's the error handling?", "Thanks.")
    ]
    expect(seen, [[A, X, B, C], [A, X, B, Y], [A, X, B]], "three requests of one session")
    return f"{seen}"


@rows("004.1.8", "004.1.9", "004.2.2")
def see_what_was_removed(bench: Bench) -> str:
    wait_until_searchable(bench)
    said: dict[str, Any] = {"agent": "assistant", "session": "removal"}
    first = list_names(bench.ask("How do I authenticate?", unpin=["flow/a", "flow/c"], **said))
    second = list_names(bench.ask("How do I authenticate?", **said))
    expect((first, second), ([X], [X]), "without an always and a semantic item")
    bench.ask("Hm?", pin=["flow/b", "flow/a", "flow/b"], **said)
    expect(list_names(bench.ask("How do I authenticate?", **said)), [A, X, B], "added again, once")
    items = bench.manage("GET", "/sessions/removal/items")
    listed = items["items"] if isinstance(items, dict) else items
    expect_in(str(listed), "flow/b", "flow/c")
    return "removed items stay out whatever their mode; added ones stay in, once"


@rows("000.10.5", "000.10.6", "000.10.8")
def see_the_content_of_a_session(bench: Bench) -> str:
    said: dict[str, Any] = {"agent": "clerk", "session": "walk"}
    starts = bench.ask("Hm?", content="returns", **said)
    stays = bench.ask("Hm?", **said)
    again = bench.ask("Hm?", content="returns", **said)
    moved = bench.ask("Hm?", content="complaints", **said)
    later = bench.ask("Hm?", **said)
    titles = [one.section("Focused Content").partition("\n")[0] for one in (starts, stays, again, moved, later)]
    expect(titles, ["[Return policy] [page]"] * 3 + ["[Complaints] [page]"] * 2, "the focus of five requests")
    expect(again.system, stays.system, "naming the same content again changes nothing")
    return "the content that a request names is kept until another one is named"


@rows("000.10.9")
def see_a_change_announced(bench: Bench) -> str:
    bench.manage("PUT", "/sessions/announced", {"settings": {"announce": True}})
    said: dict[str, Any] = {"agent": "clerk", "session": "announced"}
    bench.ask("Hm?", content="returns", **said)
    same = str(bench.ask("Hm?", content="returns", **said).sent[0]["messages"])
    moved = str(bench.ask("Hm?", content="complaints", **said).sent[0]["messages"])
    word = next((line for line in moved.split("\\n") if "changed" in line.lower() or "now" in line.lower()), "")
    expect_true(word and word not in same, f"a line about the change: {word!r}")
    return word[:120]


@rows("000.10.10")
def see_what_the_model_fetched_stay(bench: Bench) -> str:
    said: dict[str, Any] = {"agent": "assistant", "session": "fetched"}
    fetched = bench.ask("Hm?", call("get_context_resource", resource_id="flow/z"), say("Fine."), **said)
    expect_in(str(fetched.tool_results), "The archive has all letters.")
    expect_none_in(fetched.system, "The archive has all letters.")
    expect_in(bench.ask("And now?", **said).system, "The archive has all letters.")
    return "what get_context_resource brought stands in the next request of the session"


@rows("000.10.4", "004.2.8", "004.2.9", "004.2.10")
def see_the_settings_of_a_session(bench: Bench) -> str:
    said: dict[str, Any] = {"agent": "assistant", "session": "settings"}
    plain = bench.ask("Hm?", fields={"model": "agent:assistant"}, **said).sent[0]
    settings = {"temperature": 0.1, "model": "m-session", "inject": False, "max_tokens": 77}
    bench.manage("PUT", "/sessions/settings", {"settings": settings})
    changed = bench.ask("Hm?", fields={"model": "agent:assistant"}, **said)
    body = changed.sent[0]
    expect((plain["temperature"], plain["model"]), (0.7, "m-large"), "the agent's defaults")
    expect((body["temperature"], body["model"], body["max_tokens"]), (0.1, "m-session", 77), "the session's values")
    expect((list_names(changed), "Answer in English." in str(plain)), ([], True), "inject: false")
    own = bench.ask("Hm?", fields={"temperature": 0.9}, **said).sent[0]
    expect(own["temperature"], 0.9, "what the request says itself wins")
    return "temperature .7 → .1, model, max_tokens and inject of the session; the agent keeps its own"


@rows("004.6.4")
def see_expansion_by_session(bench: Bench) -> str:
    settings: dict[str, Any] = {"selection": {"expansion": {"depth": 1, "threshold": 0.3, "top_n": 3}}}
    bench.manage("PUT", "/sessions/expansion", {"settings": settings})

    def list_via(**said: Any) -> set[str]:
        shown = bench.resolve("How do I authenticate?", agent="related", **said)
        return {one["id"] for one in shown["selection"]["injected"] if one["via"] == "expansion"}

    found = (
        list_via(session="expansion")
        if bench.blind
        else bench.wait_for(lambda: list_via(session="expansion"), "expansion")
    )
    own = list_via(selection=settings["selection"])
    expect_true(found and found == own, f"by session {found}, by request {own}")
    expect(list_via(), set(), "without it")
    return f"expansion brings {sorted(found)} for a session or a request that wants it"


@rows("004.2.1")
def see_what_a_receipt_says_of_a_tool(bench: Bench) -> str:
    sent = bench.ask("Hm?", agent="engineer")
    item = find_one(bench.read_receipt(sent)["selection"]["injected"], id="toolbox/files.echo")
    expect((item["kind"], item["server"], item["mode"]), ("tool", "toolbox/files", "always"))
    return f"kind tool, name {item['name']}, server {item['server']}, mode always"
