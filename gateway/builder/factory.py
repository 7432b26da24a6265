"""The context builder as the configuration wants it."""

from gateway.builder.context_builder import ContextBuilder
from gateway.collectors.contexts import Merge
from gateway.collectors.registry import CollectorRegistry
from gateway.domain.agent import RankingWeights
from gateway.domain.memory_budget import MemoryBudget
from gateway.fair_queue import FairThreads
from gateway.selection.allotment import ShareSettings
from gateway.selection.window import WindowTable
from gateway.settings import Settings
from gateway.tokens import TokenCounter


def make_context_builder(
    settings: Settings,
    counter: TokenCounter,
    merge: Merge,
    secret: bytes,
    collectors: CollectorRegistry,
    threads: FairThreads,
    memory: MemoryBudget,
) -> ContextBuilder:
    defaults = settings.defaults
    return ContextBuilder(
        counter,
        merge,
        secret,
        defaults.budget,
        collectors,
        memory,
        threads,
        # Never less than a search may take by its own setting.
        seconds=max(settings.limits.collect_milliseconds, settings.semantic.milliseconds) / 1000,
        shares=ShareSettings(defaults.budget, defaults.list_shares(), defaults.list_type_shares()),
        ranking=RankingWeights(**defaults.ranking.model_dump()),
        windows=WindowTable({name.lower(): size for name, size in settings.windows.items()}),
    )
