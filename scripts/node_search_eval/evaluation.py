"""Asks a node search what the pages of a handbook answer, and what none of them does."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gateway.app import Gateway
from gateway.collectors.node_search import MOST_SENTENCES, NodeSearchOptions
from gateway.domain.search import NodeQuery
from gateway.semantic.index.relevance import MOST_MEANT
from gateway.semantic.node_search import NodeSearch
from gateway.semantic.search.sentences import split_query
from gateway.settings import Settings

HERE = Path(__file__).resolve().parent
OFF_TOPIC = HERE.parent / "banking_eval" / "off_topic.txt"
NOBODY: frozenset[str] = frozenset()
FIRST = 5  # places that count


@dataclass(frozen=True, slots=True)
class SearchFigures:
    """How well questions find their pages."""

    recall: float  # share of questions whose page is among the first five that are proposed
    found_first: float  # share of questions whose page is the first
    false_proposals: float  # share of the questions that no page answers for which some page is proposed
    proposed: float  # pages that an answerable question gets, on average


def read_pages(path: Path = HERE / "handbook.yaml") -> dict[str, Any]:
    pages: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))["pages"]
    return pages


def read_off_topic() -> list[str]:
    return [line.strip() for line in OFF_TOPIC.read_text("utf-8").splitlines() if line.strip()]


def read_bystanders(folder: Path) -> dict[str, Any]:
    """The sections of documents, as pages that answer none of the questions."""
    texts = {file.stem: file.read_text("utf-8") for file in sorted(folder.glob("*.md"))}
    sections = {
        f"{name.lower()}-{at}": one for name, text in texts.items() for at, one in enumerate(text.split("\n## "))
    }
    return {id: {"title": text.partition("\n")[0], "body": text.partition("\n")[2]} for id, text in sections.items()}


@asynccontextmanager
async def opened(pages: Mapping[str, Any], folder: Path) -> AsyncIterator[Gateway]:
    """A gateway whose policies have these pages as content; its embedder runs in this process."""
    content = {id: {"title": page["title"], "body": page["body"]} for id, page in pages.items()}
    (folder / "content.yaml").write_text(yaml.safe_dump({"content": content}, allow_unicode=True), "utf-8")
    data = {
        "policies": str(folder),
        "store": "memory:",
        "secret": "s",
        "upstreams": {"demo": {"kind": "demo"}},
        "routes": [{"model": "*", "upstream": "demo"}],
        "semantic": {"milliseconds": 30_000},
    }
    gateway = await Gateway.open(Settings.model_validate(data))
    async with gateway.running():
        yield gateway


async def find_pages(gateway: Gateway, question: str, *, semantic: bool) -> list[str]:
    """The ids of the pages that the collector of nodes would propose, best first."""
    library, options = gateway.pipeline.library, NodeSearchOptions()
    assert library is not None
    assert isinstance(library.finder, NodeSearch)
    sentences = split_query(question).sentences[:MOST_SENTENCES]
    query = NodeQuery(sentences, meant=sentences[:MOST_MEANT] if semantic else (), max_embedded=1_000_000, seconds=30.0)
    snapshot = gateway.policies.get_snapshot("default")
    found = await library.finder.find("default", snapshot, NOBODY, query, options.top_k)
    assert found.failure is None, found.failure
    return [one.id for one in found.matches if one.score >= options.min_score]


async def wait_until_embedded(gateway: Gateway) -> None:
    assert gateway.semantic is not None
    library = gateway.pipeline.library
    assert library is not None
    assert isinstance(library.finder, NodeSearch)
    await find_pages(gateway, "Is anybody there?", semantic=False)
    await library.finder.wait_until_indexed("default")
    await find_pages(gateway, "Is anybody there?", semantic=True)
    await gateway.semantic.documents.wait_until_indexed()


async def measure(
    gateway: Gateway, pages: Mapping[str, Any], off_topic: Sequence[str], *, semantic: bool
) -> SearchFigures:
    asked = [(question, id) for id, page in pages.items() for question in page.get("questions", ())]
    answers = [(await find_pages(gateway, question, semantic=semantic), id) for question, id in asked]
    others = [await find_pages(gateway, question, semantic=semantic) for question in off_topic]
    return SearchFigures(
        sum(id in found[:FIRST] for found, id in answers) / len(asked),
        sum(found[:1] == [id] for found, id in answers) / len(asked),
        sum(map(bool, others)) / max(1, len(others)),
        sum(len(found) for found, _ in answers) / len(asked),
    )
