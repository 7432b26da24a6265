"""How what was found is put together: sections, headings, and what resolve and receipts tell about them."""

from scripts.seed_rows.bench import Bench
from scripts.seed_rows.checks import expect, expect_in, expect_order, expect_true, find_one, rows
from scripts.seed_rows.collecting import wait_until_indexed

TITLES = ("Focused Content", "Related Content", "Connected Items", "Recent Activity")


@rows("001.5.1")
def see_the_four_sections(bench: Bench) -> str:
    wait_until_indexed(bench)
    sent = bench.ask("In which city is our bank?", agent="wide", content="returns", user="linus")
    expect_order(sent.system, *(f"--- {title} [" for title in TITLES))
    return f"{', '.join(TITLES)} follow each other in the system message"


@rows("001.5.2")
def see_an_empty_section(bench: Bench) -> str:
    sent = bench.ask("Hm?", agent="wide", content="branch", user="nobody-yet")
    expect(sent.section("Recent Activity"), "_No relevant content found._")
    return "Recent Activity of a new user says _No relevant content found._"


@rows("001.5.3", "001.1.24")
def see_what_stands_before_an_item(bench: Bench) -> str:
    bench.manage("POST", "/content", {"id": "dated", "key": "dated", "parent": "complaints", "body": "Dated text."})
    try:
        shown = bench.resolve("Hm?", agent="wide", content="dated")
        item = find_one(shown["selection"]["injected"], id="dated")
        focused = bench.ask("Hm?", agent="wide", content="dated").section("Focused Content")
    finally:
        bench.manage("DELETE", "/content/dated")
    day = str(item["modified"])[:10]
    expect(item["breadcrumb"], ["Wiki", "Complaints"])
    expect(focused.splitlines()[:3], ["[Dated] [page]", f"Wiki / Complaints, modified {day}", "Dated text."])
    return f"[Dated] [page], then Wiki / Complaints, modified {day}"


@rows("001.1.18")
def see_sections_in_resolve(bench: Bench) -> str:
    shown = bench.resolve("Hm?", agent="wide", content="returns")
    focus = find_one(shown["sections"], category="focus")
    expect((focus["title"], focus["items"][0]), ("Focused Content", "returns"))
    expect_true(focus["tokens"] > 50, f"tokens of the section: {focus['tokens']}")
    expect(focus["tokens"], shown["tokens"]["by_category"]["focus"], "tokens of section and category")
    return f"{len(shown['sections'])} sections with category, title, items and tokens; focus has {focus['tokens']}"


@rows("001.1.20", "001.1.21")
def see_focus_and_collectors_in_resolve(bench: Bench) -> str:
    shown = bench.resolve("Hm?", agent="wide", content="returns")
    expect_true(str(shown["focus"]).endswith("terms/returns"), f"the focus is named: {shown['focus']}")
    told = {one["name"]: (one["considered"], one["included"]) for one in shown["collectors"]}
    expect_true({"focus", "nodes", "relations", "activity"} <= told.keys(), f"collectors: {told}")
    expect_true(told["focus"][0] >= told["focus"][1] > 5, f"considered and included: {told['focus']}")
    return f"focus {shown['focus']}; considered and included by collector {told}"


@rows("001.1.21", "001.1.23", "004.3.2", "004.2.4", "004.8.2")
def see_the_receipt_of_what_was_sent(bench: Bench) -> str:
    sent = bench.ask("Hm?", agent="wide", content="returns")
    receipt = bench.read_receipt(sent)
    items = receipt["selection"]["injected"]
    for node, title in (("returns", "Return policy"), ("step1", "Step 1"), ("refunds", "Refunds")):
        expect(find_one(items, id=node)["name"], title)
        expect_in(sent.system, f"[{title}] [page]")
    expect_true(sent.system.count("[page]") >= 10, "there is something to compare")
    counted = [one for one in items if one["type"] == "page"]
    expect(len(counted), sent.system.count("] [page]\n"), "pages in the receipt and in the outgoing request")
    expect_true(all(one["score"] is not None and one["tokens"] for one in counted), "each has a score and tokens")
    expect_true(bool(receipt["at"]) and bool(receipt["collectors"]), "time and collectors")
    expect_in(str(receipt["text"]["blocks"]), "Customers may return lamps within thirty days.")
    return f"the receipt lists the {len(counted)} pages that were sent, with scores, tokens and texts"
