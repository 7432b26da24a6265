"""What an editor finds by words."""

from collections.abc import Callable

import pytest

from gateway.control.search import KINDS, SNIPPET, PageSlice, search
from gateway.domain.snapshot import Snapshot

POLICIES = """
contexts:
  brand-voice:
    name: Brand voice
    resources:
      tone: {type: text, description: How we sound, data: {content: "We never shout. Crème brûlée is fine."}}
      gdpr: {type: text, mode: semantic, examples: [May I store this address?], data: {content: Personal data.}}
profiles:
  writing: {name: Writing}
agents:
  voice-coach: {name: Coach, description: Trains the voice, instructions: Listen first.}
prompts:
  teaser: {template: "Write a teaser for {content}"}
content:
  blog:
    title: Blog
    children:
      welding: {id: "1042", title: Why we weld, body: Glue is wonderful.}
"""

Load = Callable[[str], Snapshot]


def found(snapshot: Snapshot, query: str, kinds: tuple[str, ...] = KINDS) -> list[tuple[str, str]]:
    return [(hit.kind, hit.id) for hit in search(query, snapshot, kinds)[0]]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("shout", ("resources", "brand-voice/tone")),
        ("creme brulee", ("resources", "brand-voice/tone")),
        ("CRÈME", ("resources", "brand-voice/tone")),
        ("address", ("resources", "brand-voice/gdpr")),
        ("how we sound", ("resources", "brand-voice/tone")),
        ("writing", ("profiles", "writing")),
        ("listen", ("agents", "voice-coach")),
        ("teaser", ("prompts", "teaser")),
        ("1042", ("content", "1042")),
        ("blog/weld", ("content", "1042")),
        ("glue", ("content", "1042")),
        ("wond", ("content", "1042")),
    ],
)
def test_it_is_found_by_its_words(policies: Load, query: str, first: tuple[str, str]) -> None:
    assert found(policies(POLICIES), query)[0] == first


def test_every_word_has_to_be_there(policies: Load) -> None:
    assert found(policies(POLICIES), "voice shout") == [("resources", "brand-voice/tone")]
    assert found(policies(POLICIES), "shout submarine") == []


def test_a_name_counts_more_than_a_text_and_a_whole_word_more_than_a_part(policies: Load) -> None:
    snapshot = policies(
        "contexts: {a: {resources: {x: {type: text, data: {content: voice}}}}, b: {name: Voice}, c: {name: Voices}}"
    )
    assert found(snapshot, "voice") == [("contexts", "b"), ("contexts", "c"), ("resources", "a/x")]


def test_kinds_narrow_the_search(policies: Load) -> None:
    assert found(policies(POLICIES), "voice", ("agents",)) == [("agents", "voice-coach")]


@pytest.mark.parametrize("query", ["", "  ", "!?", "()[]*+", ".*"])
def test_a_query_without_words_finds_nothing(policies: Load, query: str) -> None:
    assert found(policies(POLICIES), query) == []


def test_a_snippet_shows_the_words_in_a_long_text(policies: Load) -> None:
    text = "Padding words. " * 40 + "The needle is here. " + "More padding. " * 40
    snapshot = policies("contexts: {a: {resources: {x: {type: text, data: {content: '" + text + "'}}}}}")
    [hit], _ = search("needle", snapshot)
    assert "needle is here" in hit.snippet
    assert len(hit.snippet) <= SNIPPET + 2
    assert (hit.snippet[0], hit.snippet[-1]) == ("…", "…")


def test_scores_stay_between_0_and_1_and_fall(policies: Load) -> None:
    scores = [hit.score for hit in search("voice", policies(POLICIES))[0]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)


def test_a_part_of_the_hits_comes_with_the_count_of_all(policies: Load) -> None:
    every, total = search("voice", policies(POLICIES))
    assert search("voice", policies(POLICIES), part=PageSlice(1, 2)) == (every[1:3], total)
    assert total == len(every) == 4
