"""What one new question costs, stage by stage, in CPU time; prints figures as JSON.

Every stage runs by itself on the main thread with the real model, over 300 resources of three passages. The last line
is a whole question through the builder, in a process that does nothing else: what the stages do not sum up to is the
event loop, its threads and the caches.
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence

import uvloop

from gateway.builder.context_builder import ContextBuilder, ContextOrder, Inquiry
from gateway.collectors.contexts import build_merge
from gateway.collectors.registry import CollectorRegistry
from gateway.collectors.semantic import SemanticCollector
from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.domain.agent import SelectionSettings
from gateway.domain.collector import CollectorOutcome, Findings
from gateway.domain.context import Context
from gateway.domain.exchange import Exchange
from gateway.domain.principal import ANONYMOUS
from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.domain.scope import ContextRequest
from gateway.domain.search import Query, SearchResult
from gateway.domain.snapshot import Snapshot
from gateway.injection.tools import PLAIN_TOOLS
from gateway.resources.registry import load_registry
from gateway.scopes.scope import build_scope
from gateway.semantic.model.files import locate_model
from gateway.semantic.model.onnx_model import OnnxModel
from gateway.semantic.search.calibration import Calibration
from gateway.semantic.search.choice import DomainQuery, SelectionRule, choose, select_picks
from gateway.semantic.search.query_cache import normalise_sentence
from gateway.semantic.search.scoring import rank_resources
from gateway.semantic.search.sentences import split_query
from gateway.semantic.search.view import IndexView, match_words
from gateway.tokens import BpeCounter
from scripts.benchmark.semantic_figures import Figure, print_figures
from scripts.benchmark.semantic_select import build_view_of_texts

RESOURCES, PER_RESOURCE = 300, 3
QUESTION = "How do I change the address of order {} that has not been sent yet?"


def measure_cpu(work: Callable[[str], object], rounds: int) -> float:
    """Median milliseconds of CPU of this thread, with another question each time."""
    samples = []
    for number in range(rounds + 1):
        text = QUESTION.format(number)
        began = time.thread_time()
        work(text)
        samples.append((time.thread_time() - began) * 1000)
    return statistics.median(samples[1:])


def measure_stages(view: IndexView, model: OnnxModel, rounds: int) -> dict[str, float]:
    calibration, rule = Calibration.load(), SelectionRule()
    sentences = split_query(QUESTION.format(0)).sentences
    vectors = model.embed_text(sentences[0])[None]
    evidence = view.collect_evidence(sentences, vectors)
    ranking = rank_resources(evidence, calibration, rule.top_k)
    return {
        "split and normalise": measure_cpu(
            lambda text: [model.normalise(normalise_sentence(one)) for one in split_query(text).sentences], rounds
        ),
        "tokenise": measure_cpu(lambda text: model._tokenizer.encode(text), rounds),
        "tokenise and embed": measure_cpu(model.embed_text, rounds),
        "score: cosines": measure_cpu(lambda _: view.index.vectors.compute_scores(vectors, view.rows), rounds),
        "score: words": measure_cpu(lambda text: match_words([text], view.words), rounds),
        "calibrate and rank": measure_cpu(lambda _: rank_resources(evidence, calibration, rule.top_k), rounds),
        "pick": measure_cpu(lambda _: choose(ranking, rule), rounds),
        "all but embedding": measure_cpu(
            lambda text: select_picks([DomainQuery([text], vectors, view, rule)], calibration, lambda _: []), rounds
        ),
    }


class PreparedSearch:
    """A search whose parts run one after another, without a service around them."""

    def __init__(self, view: IndexView, model: OnnxModel) -> None:
        self._view, self._model, self._calibration = view, model, Calibration.load()

    async def find(
        self, workspace: str, query: Query, resources: Sequence[str], settings: SelectionSettings
    ) -> SearchResult:
        vectors = self._model.embed_text(query.sentences[0])[None]
        query_of_all = DomainQuery(query.sentences, vectors, self._view, SelectionRule())
        return select_picks([query_of_all], self._calibration, lambda picks: [])

    async def rank(self, workspace: str, text: str, resources: Sequence[str]) -> list[str] | None:
        return None

    async def find_passages(self, workspace: str, text: str, resource: str) -> list[str]:
        return []

    async def score_texts(self, workspace: str, query: Query, texts: Sequence[str]) -> list[float] | None:
        return None


def build_snapshot(view: IndexView) -> Snapshot:
    """One default context with the resources of a view."""
    resources = tuple(
        Resource(
            id=name,
            context="c",
            type="text",
            name=name,
            mode=Mode.SEMANTIC,
            kind=ResourceKind.REFERENCE,
            description="A text",
            languages=(),
            conflict_key=None,
            priority=100,
            required=False,
            mandatory=False,
            readers=(),
            examples=(),
            truncate="extractive",
            data=None,
            text="Some words about it. " * 20,
        )
        for name in view.resources
    )
    context = Context("c", "C", True, False, resources)
    return Snapshot("0" * 64, 1, {"c": context}, {}, {}, {}, {one.id: one for one in resources}, default="c")


async def measure_builder(view: IndexView, model: OnnxModel, rounds: int) -> tuple[float, float, float]:
    """Median milliseconds of CPU of the process: placing what was found, a new question, one that was asked before."""
    collector = SemanticCollector(PreparedSearch(view, model))
    collectors = CollectorRegistry((collector,))
    builder = ContextBuilder(BpeCounter(), build_merge(load_registry()), b"s", 4000, collectors)
    snapshot = build_snapshot(view)
    scope = build_scope(ContextRequest(), None, ANONYMOUS, snapshot)
    fresh: list[float] = []
    known: list[float] = []
    placed: list[float] = []
    for number in range(rounds + 1):
        text = QUESTION.format(number)
        request = CHAT.decode(b'{"messages":[{"role":"user","content":"%s"}]}' % text.encode())
        order = ContextOrder(Exchange("x", ANONYMOUS, snapshot), scope, "gpt-4o", PLAIN_TOOLS, request)
        for samples in (fresh, known):
            began = time.process_time()
            await builder.build(order)
            samples.append((time.process_time() - began) * 1000)
        found = await collector.searcher.find("", split_query(text), (), SelectionSettings())
        partition = builder.open_partition(order.snapshot, order.workspace)
        context = (await builder._learn_scope(order, partition, builder._make_key(order))).context
        outcome = CollectorOutcome(collector.name, collector.category, Findings(search=found))
        began = time.process_time()
        await builder._place(order, context, (outcome,), Inquiry(None, Query(()), ()))
        placed.append((time.process_time() - began) * 1000)
    return statistics.median(placed[1:]), statistics.median(fresh[1:]), statistics.median(known[1:])


def main(rounds: int) -> None:
    view, model = build_view_of_texts(RESOURCES * PER_RESOURCE), OnnxModel.load(locate_model())
    stages = measure_stages(view, model, rounds)
    placed, fresh, known = uvloop.run(measure_builder(view, model, rounds))
    figures = [Figure(f"a question's CPU, {name}", milliseconds, "ms") for name, milliseconds in stages.items()]
    figures.append(Figure("a question's CPU, select and render", placed, "ms"))
    figures.append(Figure("a question's CPU, all of it", fresh, "ms"))
    figures.append(Figure("a question's CPU, asked before", known, "ms", target=0.2))
    print_figures(figures)


if __name__ == "__main__":
    main(int(sys.argv[1]))
