"""Tasks of a writing assistant: layers, the world, inputs by role."""

from typing import Any

from scripts.seed_rows.bench import Bench
from scripts.seed_rows.checks import expect, expect_in, expect_none_in, expect_order, expect_true, rows
from scripts.seed_rows.world import STORY

LAMP = "harbour/chapters/the-lamp"
CHAPTER = STORY["content"]["harbour"]["children"]["chapters"]["children"]["the-lamp"]["body"]
BODY, TAIL = "The keeper did not look up from his ledger.", "as if someone were watching, and somebody was."
OUTLINE = "- Joss lies about the night of the storm"
MARA, JOSS, TOMAS = "[Mara Lind] [character]", "[Joss the keeper] [character]", "[Tomas Lind] [character]"
LIGHTHOUSE, FERRY, ARC = "[The lighthouse] [location]", "[The ferry] [location]", "[The dark lamp] [arc]"
RELATION, OTHERS = "- Mara Lind → Joss the keeper: distrusts", "- Joss the keeper → Tomas Lind: rescued"
PLANTED, RESOLVED = "[The cut wick] [foreshadowing]", "[The torn page] [foreshadowing]"
HOOK, RULE = "[Who watched the ferry?] [hook]", "[Lamps] [world-rule]"
NAMES = "- Mara Lind (protagonist, alive)"
ALL = (
    BODY,
    TAIL,
    OUTLINE,
    MARA,
    JOSS,
    TOMAS,
    LIGHTHOUSE,
    FERRY,
    ARC,
    RELATION,
    OTHERS,
    PLANTED,
    RESOLVED,
    HOOK,
    RULE,
    NAMES,
)
SCOPED = {OUTLINE, TAIL, MARA, JOSS, LIGHTHOUSE, ARC, RELATION, PLANTED, HOOK}


def show(bench: Bench, task: str, said: str = "Go on.", **context: Any) -> set[str]:
    """Which parts of the story went upstream for a task."""
    sent = bench.ask(said, task=task, **context)
    return {part for part in ALL if part in sent.system}


@rows("003.1.1", "003.1.2", "003.1.3", "003.1.4", "003.1.5", "003.1.6")
def see_the_five_layers(bench: Bench) -> str:
    expect(show(bench, "continue", content=LAMP), {BODY, *SCOPED, RULE}, "by the chapter alone")
    sent = bench.ask("Go on.", task="continue", content=LAMP, refs={"selected": ["ferry"]})
    expect_order(sent.system, BODY, OUTLINE, TAIL, MARA, RELATION, PLANTED, RULE, FERRY)
    expect_none_in(sent.system, OTHERS, RESOLVED, TOMAS)
    return "text, outline, end of the chapter before, characters, relation, foreshadowing, rule, selection"


@rows("003.1.8", "003.2.6")
def see_the_whole_world(bench: Bench) -> str:
    world = set(ALL) - {BODY, OUTLINE, TAIL, NAMES}
    expect(show(bench, "ask", "Who is Tomas?"), world, "all entities")
    expect(show(bench, "ask", "Who is Tomas?", content=LAMP), world, "never the chapter")
    return f"{len(world)} parts of the story bible, with a chapter named or not"


@rows("003.1.9", "003.1.10", "003.2.5")
def see_the_summary_of_the_world(bench: Bench) -> str:
    expect(show(bench, "brainstorm"), {NAMES}, "the summary alone")
    sent = bench.ask("Ideas?", task="brainstorm")
    expect_in(sent.system, "- The dark lamp (active)", "- The cut wick (planted)")
    expect_none_in(sent.system, "torn page", "slow to forgive")
    expect(show(bench, "brainstorm", content=LAMP), {NAMES, BODY, OUTLINE, MARA, JOSS, LIGHTHOUSE, ARC}, "merged")
    return "names, roles and status, foreshadowing only where it is planted; with a chapter, both are merged"


@rows("003.1.11", "003.1.12")
def see_items_grouped_by_type(bench: Bench) -> str:
    sent = bench.ask("Who is Mara?", task="ask")
    text = sent.section("Task Content")
    expect_order(text, MARA, JOSS, TOMAS, LIGHTHOUSE, FERRY, ARC, PLANTED, HOOK, RULE)
    expect_in(text, f"{MARA}\n", "role: protagonist\nstatus: alive\n\nA surveyor who returns to the island")
    return "characters, places, arc, foreshadowing, hook, rule; a character with role, status and text"


@rows("003.1.14", "001.1.9")
def see_the_result_of_a_recipe(bench: Bench) -> str:
    whole = bench.resolve("Go on.", task="brainstorm", content=LAMP)["recipe"]
    cut = bench.resolve("Go on.", task="brainstorm", content=LAMP, budget=250)["recipe"]
    expect([whole["truncated"], cut["truncated"]], [False, True])
    ids = [one["id"] for one in cut["items"]]
    expect(ids, [one["id"] for one in whole["items"]][: len(ids)], "what comes first stays")
    expect_true(0 < cut["tokens"] < whole["tokens"], f"tokens {cut['tokens']} of {whole['tokens']}")
    missing = bench.resolve("Go on.", task="continue", content=LAMP, budget=40)["validation"]
    expect((missing["valid"], [one["code"] for one in missing["missing"]]), (False, ["required_layer"]))
    lacking = bench.resolve("Go on.", agent="demanding", key="core")["validation"]
    expect([one["code"] for one in lacking["missing"]], ["required_category"])
    return f"items, {cut['tokens']} tokens, truncated; a missing layer or category makes a context invalid"


@rows("003.2.1", "003.2.9")
def see_that_a_chapter_is_required(bench: Bench) -> str:
    seen = {}
    contexts: dict[str, dict[str, Any]] = {"none": {}, "harbour": {"content": "harbour"}}
    for content, said in contexts.items():
        refused = bench.try_to_ask("Go on.", task="continue", **said)
        error = refused.reply.body["error"]
        seen[content] = refused.reply.status, error["code"], error["param"]
        expect(refused.sent, [], "nothing is sent")
    expect([one[:2] for one in seen.values()], [(400, "content_required")] * 2)
    return f"without a chapter, and with a node that is none: {seen}"


@rows("003.2.2")
def see_that_nothing_is_said_twice(bench: Bench) -> str:
    said = f"Continue this chapter:\n\n{CHAPTER}"
    expect(show(bench, "continue", said, content=LAMP), {*SCOPED, RULE}, "all but the chapter")
    shown = bench.resolve(said, task="continue", content=LAMP)
    expect([(one["id"], one["reason"]) for one in shown["selection"]["dropped"]], [(LAMP, "in_request")])
    return "the chapter that the prompt contains is left out: in_request"


@rows("003.2.3", "003.2.8")
def see_a_dialogue(bench: Bench) -> str:
    named = {"character": ["joss", "tomas"]}
    expect(show(bench, "dialogue", refs=named), {JOSS, TOMAS, OTHERS, PLANTED, HOOK}, "without a chapter")
    expect(show(bench, "dialogue", content=LAMP), SCOPED, "with a chapter")
    expect(show(bench, "dialogue", content=LAMP, refs=named), {*SCOPED, TOMAS, OTHERS}, "with both")
    refused = bench.try_to_ask("Go on.", task="dialogue").reply
    expect((refused.status, refused.body["error"]["param"]), (400, "context.refs.character"))
    return "named characters with their relations; with a chapter its layers too; with neither 400"


@rows("003.2.4", "003.2.8")
def see_a_description(bench: Bench) -> str:
    expect(show(bench, "describe", refs={"location": "ferry"}), {FERRY, RULE}, "without a chapter: the world's rules")
    scoped = show(bench, "describe", content=LAMP, refs={"location": "ferry"})
    expect(scoped, {FERRY, LIGHTHOUSE, OUTLINE, RULE}, "with a chapter")
    return "the named place and the rules of the world; with a chapter its outline and place too"
