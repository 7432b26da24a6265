"""What Prometheus sees."""

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import Request

from gateway.circuit_breaker import CircuitBreaker
from gateway.domain.exchange import TurnReply
from gateway.edge.metrics import Metrics


class Scrape:
    """What one scrape shows, by name and label values in any order."""

    def __init__(self, metrics: Metrics) -> None:
        families = text_string_to_metric_families(metrics.render().decode())
        self.samples = {
            (sample.name, frozenset(sample.labels.values())): sample.value
            for family in families
            for sample in family.samples
        }

    def __call__(self, name: str, *labels: str) -> float | None:
        return self.samples.get((f"gateway_{name}", frozenset(labels)))


def test_requests_are_counted_by_route_and_status_and_timed_by_route():
    metrics = Metrics()
    metrics.count_requests(["chat", "chat", "models"], [200, 200, 200], [0.02, 0.2, 0.2])
    metrics.count_requests(["chat"], [400], [0.2])
    seen = Scrape(metrics)
    assert seen("requests_total", "chat", "200") == 2
    assert seen("requests_total", "chat", "400") == 1
    assert seen("request_seconds_count", "chat") == 3
    assert seen("request_seconds_bucket", "chat", "0.025") == 1
    assert seen("request_seconds_sum", "chat") == pytest.approx(0.42)
    assert (seen("requests_total", "models", "200"), seen("request_seconds_sum", "models")) == (1, 0.2)


def test_what_an_exchange_did_is_counted():
    metrics = Metrics()
    metrics.count_turns([TurnReply("openai", 200), TurnReply("openai", 0)])
    metrics.count_tool_run("get_context_resource")
    metrics.count_injections(resources=3, tokens=420)
    metrics.count_degraded(["semantic", "store"])
    metrics.count_failed_reload()
    seen = Scrape(metrics)
    assert seen("upstream_turns_total", "openai", "200") == 1
    assert seen("upstream_turns_total", "openai", "0") == 1
    assert seen("tool_runs_total", "get_context_resource") == 1
    assert seen("injected_resources_total") == 3
    assert seen("context_tokens_total") == 420
    assert seen("degraded_total", "semantic") == 1
    assert seen("degraded_total", "store") == 1
    assert seen("reload_failures_total") == 1


def test_states_are_asked_for_when_they_are_scraped():
    metrics = Metrics()
    now = [0.0]
    breaker = CircuitBreaker(lambda: now[0], threshold=1, seconds=10)
    generation = [1]
    metrics.watch_breakers({"openai": breaker})
    metrics.watch_generation(lambda: generation[0])
    metrics.in_flight += 2
    seen = Scrape(metrics)
    assert (seen("breaker_state", "openai"), seen("policies_generation")) == (0, 1)
    assert seen("in_flight") == 2
    breaker.record_failure()
    generation[0] = 2
    seen = Scrape(metrics)
    assert (seen("breaker_state", "openai"), seen("policies_generation")) == (2, 2)
    now[0] = 11
    assert Scrape(metrics)("breaker_state", "openai") == 1


def test_two_gateways_in_one_process_count_apart():
    first, second = Metrics(), Metrics()
    first.count_tool_run("x")
    assert Scrape(first)("tool_runs_total", "x") == 1
    assert Scrape(second)("tool_runs_total", "x") is None


async def test_the_endpoint_answers_in_prometheus_text_format():
    response = await Metrics().serve(Request({"type": "http"}))
    assert response.headers["content-type"].startswith("text/plain")
    assert b"gateway_in_flight 0.0" in response.body
