"""Builds injections without a gateway, with a counter of words and a search that finds every other resource."""

from collections.abc import Sequence
from functools import cache

from gateway.builder.context_builder import ContextBuilder, ContextOrder
from gateway.collectors.contexts import Merge, build_merge
from gateway.collectors.registry import CollectorRegistry
from gateway.collectors.semantic import SemanticCollector
from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.domain.agent import SelectionSettings
from gateway.domain.exchange import Exchange
from gateway.domain.injection import Injection, OwnTools
from gateway.domain.memory_budget import MemoryBudget
from gateway.domain.principal import Principal
from gateway.domain.scope import ContextRequest
from gateway.domain.search import Pick, Query, SearchResult
from gateway.domain.snapshot import Snapshot
from gateway.resources.registry import load_registry
from gateway.scopes.scope import build_scope
from gateway.selection.allotment import ShareSettings

QUESTIONS = ["How long is the warranty of a lamp?", "What does shipping to Denmark cost?", "Hello there, my friend!"]
# Agents and nodes are filled in.
MANY = """
contexts:
  house:
    resources:
      voice: {type: text, data: {content: Write plainly.}}
      more: {type: text, mode: on_demand, data: {content: More.}}
agents: {%s}
content: {site: {contexts: [house], children: {%s}}}
"""


SHARES = ShareSettings(150, {"always": 60, "semantic": 50}, {"search": {"always": 20, "semantic": 100}})


class WordCounter:
    """Counts words; two families of models count differently."""

    def count(self, text: str, model: str) -> int:
        return len(text.split()) * (2 if self.family(model) == "x" else 1)

    def family(self, model: str) -> str:
        return model[:1]


class FakeSearcher:
    """Finds every other resource, depending on the question and the settings."""

    def __init__(self) -> None:
        self.searches = 0

    async def find(
        self, workspace: str, query: Query, resources: Sequence[str], settings: SelectionSettings
    ) -> SearchResult:
        self.searches += 1
        chosen = [name for name in resources if len(name + "".join(query.sentences)) % 2]
        picks = [Pick(name, 0.9, why=f"about {query.sentences[0]} {settings.preset}") for name in chosen]
        return SearchResult(tuple(picks[: settings.every.top_n]))

    async def rank(self, workspace: str, text: str, resources: Sequence[str]) -> list[str] | None:
        return None

    async def find_passages(self, workspace: str, text: str, resource: str) -> list[str]:
        return []

    async def score_texts(self, workspace: str, query: Query, texts: Sequence[str]) -> list[float] | None:
        return None


@cache
def get_merge() -> Merge:
    """How resources that conflict are joined; to look for the types that are installed takes milliseconds."""
    return build_merge(load_registry())


def make_builder(memory: MemoryBudget, searcher: FakeSearcher | None = None) -> ContextBuilder:
    collectors = CollectorRegistry((SemanticCollector(searcher or FakeSearcher()),))
    return ContextBuilder(WordCounter(), get_merge(), b"s", 150, collectors, memory, shares=SHARES, clock=lambda: 0.0)


async def build(
    builder: ContextBuilder,
    snapshot: Snapshot,
    asked: ContextRequest,
    who: Principal,
    tools: OwnTools | None,
    model: str,
    question: str,
) -> Injection:
    scope = build_scope(asked, None, who, snapshot)
    body = b'{"messages":[{"role":"user","content":"%s"}]}' % question.encode()
    exchange = Exchange("x", who, snapshot)
    return await builder.build(ContextOrder(exchange, scope, model, tools, CHAT.decode(body)))
