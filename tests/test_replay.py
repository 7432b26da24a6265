"""A log of support conversations, replayed: most of its selections come from the cache."""

import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.app import Gateway
from gateway.collectors.registry import CollectorRegistry
from gateway.collectors.semantic import SemanticCollector
from gateway.domain.agent import SelectionSettings
from gateway.domain.search import Query, SearchResult
from gateway.pipeline import Pipeline
from gateway.settings import Settings
from scripts.banking_eval.replay import replay_log
from scripts.banking_eval.traffic import SUPPORT, draw_log, draw_questions

# As many things to ask, and ways to put each, as banking77 has: a cache is asked for words, whatever they mean.
ROWS = [
    (f"May I ask about matter {intent} in wording {wording}?", f"intent_{intent}")
    for intent in range(77)
    for wording in range(170)
]
POLICIES = "contexts: {help: {default: true, resources: {one: {type: text, mode: semantic, data: {content: One}}}}}\n"


class EmptySearcher:
    """A searcher that finds nothing, at once."""

    def __init__(self) -> None:
        self.searches = 0

    async def find(
        self, workspace: str, query: Query, resources: Sequence[str], tuned: SelectionSettings
    ) -> SearchResult:
        self.searches += 1
        return SearchResult()

    async def rank(self, *_: Any) -> None:
        return None

    async def find_passages(self, *_: Any) -> list[str]:
        return []


@pytest.fixture
async def gateway(tmp_path: Path) -> Any:
    (tmp_path / "all.yaml").write_text(POLICIES)
    settings = Settings.model_validate(
        {
            "policies": str(tmp_path),
            "store": "memory:",
            "upstreams": {"demo": {"kind": "demo"}},
            "routes": [{"model": "*", "upstream": "demo"}],
            "semantic": {"enabled": False},
        }
    )
    opened = await Gateway.open(settings)
    yield opened
    await opened.close()


def with_searcher(pipeline: Pipeline, searcher: Any) -> Pipeline:
    collectors = CollectorRegistry((SemanticCollector(searcher),))
    return replace(pipeline, builder=replace(pipeline.builder, collectors=collectors), searcher=searcher)


async def test_most_of_a_support_log_needs_no_search(gateway: Gateway) -> None:
    searcher = EmptySearcher()
    pipeline = with_searcher(gateway.pipeline, searcher)
    done = await replay_log(pipeline, gateway.policies.current, draw_log(ROWS, SUPPORT, 1, 2500))
    assert done.share > 0.6
    assert done.requests - done.cached == searcher.searches
    assert done.requests > 5000


async def test_a_log_in_which_nothing_recurs_needs_a_search_each_time(gateway: Gateway) -> None:
    searcher = EmptySearcher()
    log = ([{"role": "user", "content": f"What is the meaning of number {number}?"}] for number in range(50))
    done = await replay_log(with_searcher(gateway.pipeline, searcher), gateway.policies.current, log)
    assert (done.requests, done.cached, searcher.searches) == (50, 0, 50)


def test_few_things_make_up_most_of_the_log_and_most_wordings_occur_once() -> None:
    questions = list(itertools.islice(draw_questions(ROWS, SUPPORT, 1), 3000))
    matters = Counter(question.split(" in wording")[0] for question in questions)
    assert len(matters) > 60
    assert sum(count for _, count in matters.most_common(10)) > 0.5 * len(questions)
    wordings = Counter(questions)
    assert sum(count == 1 for count in wordings.values()) > 0.5 * len(wordings)


def test_the_log_is_the_same_for_one_seed_and_every_request_ends_with_what_is_asked() -> None:
    first, again, other = ([*draw_log(ROWS, SUPPORT, seed, 50)] for seed in (1, 1, 2))
    assert first == again != other
    for messages in first:
        assert messages[-1]["role"] in ("user", "tool")
        assert [one["role"] for one in messages if one["role"] != "tool"].count("user") >= 1
