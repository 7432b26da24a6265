"""What `/metrics` reads from the parts of a gateway whenever somebody asks for it."""

from gateway.edge.metrics import Metrics
from gateway.parts import GatewayParts


def watch_figures(metrics: Metrics, gateway: GatewayParts) -> None:
    metrics.watch_counts("limited", lambda: gateway.limiter.refused)
    metrics.watch_counts("log_lines_lost", lambda: {(): gateway.log.lost})
    metrics.watch_counts("job_restarts", lambda: gateway.jobs.restarts)
    metrics.watch_counts("loop_stalls", lambda: {(): gateway.watchdog.stalls})
    metrics.watch_counts("shed", lambda: count_shed(gateway))
    metrics.watch_generation(lambda: gateway.policies.generation)
    metrics.watch_breakers(gateway.routes.breakers)
    metrics.watch_gauge("store_breaker", lambda: {(): float(gateway.stores.breaker_open)})
    metrics.watch_counts("session_changes_lost", lambda: {(): gateway.pipeline.sessions.late.lost})
    metrics.watch_gauge("responses_waiting", lambda: {(): len(gateway.pipeline.responses.queue)})
    metrics.watch_counts("content_unread", lambda: {(): gateway.content.unread})
    recorder = gateway.pipeline.receipts
    if recorder is not None:
        metrics.watch_counts("receipts_lost", lambda: {(): recorder.lost})
        metrics.watch_gauge("receipts_waiting", lambda: {(): recorder.waiting})
    summaries = gateway.summaries
    if summaries is not None:
        metrics.watch_counts("summaries", lambda: summaries.outcomes)
        metrics.watch_counts("summary_tokens", lambda: summaries.tokens)
        metrics.watch_gauge("summaries_waiting", lambda: {(): summaries.waiting})
    semantic = gateway.semantic
    if semantic is not None:
        metrics.watch_counts("selection_cache", lambda: gateway.pipeline.builder.lookups.by_outcome)
        metrics.watch_counts("vector_cache", lambda: semantic.cache_counts)
        metrics.watch_counts("lookups", lambda: semantic.lookup_counts)


def count_shed(gateway: GatewayParts) -> dict[tuple[str, ...], float]:
    """What was refused or left out because a workspace had more waiting than its share."""
    pipeline = gateway.pipeline
    queues = {
        "requests": gateway.threads.queue,
        "policies": gateway.policies.threads.queue,
        "documents": gateway.extractor.threads.queue,
        "tools": pipeline.tools.queue,
        "retrievers": pipeline.retrievers.queue,
    }
    shed: dict[tuple[str, ...], float] = {(name,): queue.shed for name, queue in queues.items()}
    return shed if gateway.summaries is None else shed | {("summaries",): gateway.summaries.shed}
