"""This gateway with one feature on: what keys, limits, receipts, the log and the console add to a request."""

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from scripts.benchmark.cells import Kind
from scripts.benchmark.subjects import Subject, probe, run_gateway

OURS = "gateway"
QUIET = "gateway without log"
HEADLESS = "gateway without console"
UNRECORDED = "gateway without receipts"
SILENT = "gateway without log and receipts"
KEY = "sk-bench-features"


@dataclass(frozen=True, slots=True)
class Feature:
    """A gateway that has it, one that has it not, and the most that it may cost."""

    name: str
    subject: str
    base: str
    limit: float
    settings: Mapping[str, Any]


def build_key(**limits: int) -> dict[str, Any]:
    """Settings with one key, whose limits are never reached."""
    return {"auth": {"keys": [{"sha256": sha256(KEY.encode()).hexdigest(), "limits": limits}]}}


FEATURES = (
    Feature("exchange log", OURS, QUIET, 1.1, {}),
    Feature("receipts", OURS, UNRECORDED, 1.15, {}),
    Feature("receipts, without the log", QUIET, SILENT, 1.15, {}),
    Feature("console", OURS, HEADLESS, 1.03, {}),
    Feature("keys", "gateway with keys", OURS, 1.03, build_key()),
    Feature("request limit", "gateway with a request limit", OURS, 1.1, build_key(requests=10**9)),
    Feature("token limit", "gateway with a token limit", OURS, 1.1, build_key(tokens=10**12)),
)


SETTINGS: Mapping[str, Mapping[str, Any]] = {
    OURS: {},
    QUIET: {"log": {"exchanges": False}},
    UNRECORDED: {"receipts": {"enabled": False}},
    SILENT: {"log": {"exchanges": False}, "receipts": {"enabled": False}},
    HEADLESS: {"console": False},
    **{one.subject: one.settings for one in FEATURES if one.settings},
}


def list_headers(subject: str) -> tuple[tuple[str, str], ...]:
    """What every request to one of these gateways bears."""
    return (("authorization", f"Bearer {KEY}"),) if "auth" in SETTINGS[subject] else ()


@contextmanager
def run_features(upstream_port: int, directory: Path) -> Generator[list[Subject]]:
    """Each in a process of its own; the gateway with its defaults is not among them."""
    with ExitStack() as stack:
        running = []
        for name in SETTINGS.keys() - {OURS}:
            place, headers = directory / name.replace(" ", "-"), list_headers(name)
            gateway = run_gateway(upstream_port, place, name=name, settings=SETTINGS[name], headers=headers)
            subject = stack.enter_context(gateway)
            probe(subject, Kind.INJECTED)
            running.append(subject)
        yield running
