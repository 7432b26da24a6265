"""A task brings what its recipe names: the matrix of the writing assistant, over the example story, at the upstream."""

from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.support.contract_policies import system_text
from tests.support.gateway import Client, ClientReply, Start
from tests.support.upstream import Upstream, say

STORY = yaml.safe_load((Path(__file__).resolve().parents[2] / "policies" / "story.yaml").read_text(encoding="utf-8"))
LAMP = "harbour/chapters/the-lamp"
BODY = "The keeper did not look up from his ledger."
OUTLINE = "- Joss lies about the night of the storm"
TAIL = "as if someone were watching, and somebody was."
MARA, JOSS, TOMAS = "[Mara Lind] [character]", "[Joss the keeper] [character]", "[Tomas Lind] [character]"
LIGHTHOUSE, FERRY = "[The lighthouse] [location]", "[The ferry] [location]"
ARC = "[The dark lamp] [arc]"
RELATION, RELATION_OF_OTHERS = "- Mara Lind → Joss the keeper: distrusts", "- Joss the keeper → Tomas Lind: rescued"
PLANTED, RESOLVED = "[The cut wick] [foreshadowing]", "[The torn page] [foreshadowing]"
HOOK = "[Who watched the ferry?] [hook]"
RULE = "[Lamps] [world-rule]"
NAMES = "- Mara Lind (protagonist, alive)"
ALL: tuple[str, ...] = (
    BODY,
    OUTLINE,
    TAIL,
    MARA,
    JOSS,
    TOMAS,
    LIGHTHOUSE,
    FERRY,
    ARC,
    RELATION,
    RELATION_OF_OTHERS,
    PLANTED,
    RESOLVED,
)
ALL = (*ALL, HOOK, RULE, NAMES)


@pytest.fixture
def story(start: Start) -> Client:
    return start(policies=STORY)


async def send(client: Client, upstream: Upstream, task: str, said: str = "Go on.", **context: Any) -> ClientReply:
    upstream.will(say("Fine."))
    reply = await client.chat(said, context={"task": task, **context})
    if reply.status != 200:
        upstream.reset()
    return reply


async def show(client: Client, upstream: Upstream, task: str, said: str = "Go on.", **context: Any) -> set[str]:
    """Which of the story's parts go up for a task."""
    reply = await send(client, upstream, task, said, **context)
    assert reply.status == 200, reply.raw
    block = system_text(upstream.requests[-1])
    return {part for part in ALL if part in block}


async def resolve(client: Client, query: str = "Go on.", **context: Any) -> dict[str, Any]:
    address = client.base_url.replace("/v1", "/api/v1/resolve")
    body = {"context": context, "query": query}
    async with aiohttp.ClientSession() as session, session.post(address, json=body) as response:
        assert response.status == 200, await response.text()
        return dict(await response.json())


SCOPED = {OUTLINE, TAIL, MARA, JOSS, LIGHTHOUSE, ARC, RELATION, PLANTED, HOOK}


async def test_continuing_needs_a_chapter_and_takes_all_five_layers(story: Client, upstream: Upstream) -> None:
    assert await show(story, upstream, "continue", content=LAMP) == {BODY, *SCOPED, RULE}
    chosen = await show(story, upstream, "continue", content=LAMP, refs={"selected": ["ferry"]})
    assert chosen == {BODY, *SCOPED, RULE, FERRY}
    for content in (None, "harbour"):
        reply = await send(story, upstream, "continue", **({"content": content} if content else {}))
        assert (reply.status, reply.error["code"]) == (400, "content_required")
        assert reply.error["param"] in ("x-context-content", "context.content")
        assert "chapter" in reply.error["message"]


async def test_what_the_request_already_contains_is_left_out_and_told(story: Client, upstream: Upstream) -> None:
    whole = STORY["content"]["harbour"]["children"]["chapters"]["children"]["the-lamp"]["body"]
    said = f"Continue this chapter:\n\n{whole}"
    assert await show(story, upstream, "continue", said, content=LAMP) == {*SCOPED, RULE}
    shown = await resolve(story, said, task="continue", content=LAMP)
    assert [(one["id"], one["reason"]) for one in shown["selection"]["dropped"]] == [(LAMP, "in_request")]
    assert shown["validation"] == {"valid": True, "missing": []}


async def test_a_dialogue_is_about_named_characters_or_a_chapter(story: Client, upstream: Upstream) -> None:
    named = {"character": ["joss", "tomas"]}
    assert await show(story, upstream, "dialogue", refs=named) == {JOSS, TOMAS, RELATION_OF_OTHERS, PLANTED, HOOK}
    assert await show(story, upstream, "dialogue", content=LAMP) == SCOPED
    both = await show(story, upstream, "dialogue", content=LAMP, refs=named)
    assert both == {*SCOPED, TOMAS, RELATION_OF_OTHERS}
    reply = await send(story, upstream, "dialogue")
    assert (reply.status, reply.error["code"]) == (400, "reference_required")
    assert reply.error["param"] == "context.refs.character"


async def test_describing_a_place_falls_back_to_the_world(story: Client, upstream: Upstream) -> None:
    assert await show(story, upstream, "describe", refs={"location": "ferry"}) == {FERRY, RULE}
    scoped = await show(story, upstream, "describe", content=LAMP, refs={"location": "ferry"})
    assert scoped == {FERRY, LIGHTHOUSE, OUTLINE, RULE}


async def test_brainstorming_always_has_the_summary_and_merges_the_chapter(story: Client, upstream: Upstream) -> None:
    assert await show(story, upstream, "brainstorm") == {NAMES}
    block = system_text(upstream.requests[-1])
    assert "- The cut wick (planted)" in block
    assert "torn page" not in block, "only what is active"
    merged = await show(story, upstream, "brainstorm", content=LAMP)
    assert merged == {NAMES, BODY, OUTLINE, MARA, JOSS, LIGHTHOUSE, ARC}


async def test_asking_takes_the_whole_world_and_never_a_chapter(story: Client, upstream: Upstream) -> None:
    world = set(ALL) - {BODY, OUTLINE, TAIL, NAMES}
    assert await show(story, upstream, "ask", "Who is Tomas?") == world
    assert await show(story, upstream, "ask", "Who is Tomas?", content=LAMP) == world


async def test_completing_takes_what_the_caller_provides(story: Client, upstream: Upstream) -> None:
    items = [{"name": "Note", "text": "The caller's own note."}]
    assert await show(story, upstream, "complete", items=items) == set()
    assert "[Note]\nThe caller's own note." in system_text(upstream.requests[-1])


async def test_the_merged_set_is_truncated_once_and_told_in_the_preview(story: Client) -> None:
    whole = await resolve(story, task="brainstorm", content=LAMP)
    assert whole["recipe"]["task"] == "brainstorm"
    assert [one["layer"] for one in whole["recipe"]["items"]] == [0, 1, 2, 2, 2, 2, 1000, 1000, 1000]
    assert not whole["recipe"]["truncated"]
    assert whole["recipe"]["tokens"] == whole["tokens"]["by_category"]["task"]
    for budget in (40, 150, 400, 800):
        cut = await resolve(story, task="brainstorm", content=LAMP, budget=budget)
        ids = [one["id"] for one in cut["recipe"]["items"]]
        assert cut["tokens"]["total"] <= budget
        assert cut["recipe"]["truncated"] == (ids != [one["id"] for one in whole["recipe"]["items"]])
        assert ids == [one["id"] for one in whole["recipe"]["items"]][: len(ids)], "what comes first stays"
    missing = await resolve(story, task="continue", content=LAMP, budget=40)
    assert [one["code"] for one in missing["validation"]["missing"]] == ["required_layer"]


@pytest.mark.parametrize(
    ("context", "code", "param"),
    [
        ({"task": "brainstrom"}, "unknown_task", "context.task"),
        ({"task": "describe", "refs": {"location": "fery"}}, "unknown_content", "context.refs.location"),
        ({"task": "describe", "refs": {"location": 7}}, "invalid_request", "context.refs.location"),
    ],
)
async def test_a_wrong_task_or_reference_is_refused(
    story: Client, upstream: Upstream, context: dict[str, Any], code: str, param: str
) -> None:
    reply = await send(story, upstream, **context)
    assert (reply.status, reply.error["code"], reply.error["param"]) == (400, code, param)


async def test_what_the_caller_may_not_read_is_in_no_layer(start: Start, upstream: Upstream) -> None:
    hidden = yaml.safe_load(yaml.safe_dump(STORY))
    people = hidden["content"]["harbour"]["children"]["characters"]["children"]
    people["joss"]["readers"] = ["group:authors"]
    client = start(policies=hidden)
    for task, context in (("continue", {"content": LAMP}), ("ask", {}), ("brainstorm", {"content": LAMP})):
        parts = await show(client, upstream, task, **context)
        assert not {JOSS, RELATION, RELATION_OF_OTHERS} & parts
        assert "Joss the keeper" not in str(upstream.requests[-1])
    reply = await send(client, upstream, "dialogue", refs={"character": "joss"})
    assert (reply.status, reply.error["code"]) == (400, "unknown_content")
