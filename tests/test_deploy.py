"""What `compose.yaml` starts can be started: its files fit together, and the gateways work with their configuration."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from gateway.settings_loader import load_settings
from tests.support.gateway_processes import START_SECONDS, read_first_line
from tests.support.redis_server import running_redis

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "deploy" / "gateway.yaml"
REPLICAS = 2


def read_yaml(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def compose() -> dict[str, Any]:
    services: dict[str, Any] = read_yaml("compose.yaml")["services"]
    return services


def mounts(service: dict[str, Any]) -> dict[str, str]:
    """Where each file or folder of the repository stands in the container."""
    split = [volume.split(":") for volume in service.get("volumes", [])]
    return {source: target for source, target, *_ in split if source.startswith("./")}


def test_everything_that_is_mounted_exists() -> None:
    sources = [source for service in compose().values() for source in mounts(service)]
    assert len(sources) == 3
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_the_configuration_finds_the_mounted_policies_and_the_store() -> None:
    settings = load_settings(CONFIG, {})
    targets = mounts(compose()["gateway"])
    config = Path(targets["./deploy/gateway.yaml"])
    assert Path(settings.policies).relative_to(CONFIG.parent) == Path(targets["./policies"]).relative_to(config.parent)
    assert "redis" in compose()
    assert settings.store == "redis://redis:6379/0"
    assert str(config) in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_every_replica_has_a_port_and_is_scraped() -> None:
    gateway = compose()["gateway"]
    (published,) = gateway["ports"]
    ((first, last, inside),) = [map(int, found) for found in re.findall(r":(\d+)-(\d+):(\d+)$", published)]
    (job,) = read_yaml("deploy/prometheus.yaml")["scrape_configs"]
    (lookup,) = job["dns_sd_configs"]
    assert last - first + 1 == gateway["deploy"]["replicas"] == REPLICAS
    assert (lookup["names"], lookup["port"]) == (["gateway"], inside)
    assert load_settings(CONFIG, {}).listen.port == inside


def test_only_loopback_is_published() -> None:
    ports = [port for service in compose().values() for port in service.get("ports", [])]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


class Deployment:
    """The command of the gateway, with the configuration of compose.yaml and a store of this machine."""

    def __init__(self, store: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
        self.environment = {**kept, "PYTHONPATH": str(ROOT), "GATEWAY_STORE": store, "PYTHONFAULTHANDLER": "1"}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gateway", *words, "--config", str(CONFIG)]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=START_SECONDS, check=False
        )

    @contextmanager
    def serve(self) -> Iterator[str]:
        """The address of a replica; it listens on loopback here."""
        command = [sys.executable, "-m", "gateway", "serve", "--config", str(CONFIG)]
        command += ["--policies", str(ROOT / "policies"), "--host", "127.0.0.1", "--port", "0"]
        with (
            tempfile.TemporaryFile("w+") as errors,
            subprocess.Popen(
                command, env=self.environment, stdout=subprocess.PIPE, stderr=errors, text=True
            ) as process,
        ):
            try:
                line = read_first_line(process)
                assert line.startswith("Context Gateway listens on "), "the gateway did not start"
                yield line.split()[-1]
            finally:
                process.terminate()
                try:
                    process.communicate(timeout=30)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGABRT)  # which makes it tell where each of its threads is
                    process.communicate()
                    errors.seek(0)
                    pytest.fail(f"a replica did not end: {errors.read()[-5000:]}")


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with running_redis() as server:
        yield Deployment(server.url)


def fetch(url: str, key: str = "", body: object = None) -> tuple[int, bytes]:
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
    request = urllib.request.Request(url, None if body is None else orjson.dumps(body), headers)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # past any proxy of the machine
    try:
        with direct.open(request, timeout=START_SECONDS) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_the_configuration_passes_the_check(deployment: Deployment) -> None:
    done = deployment.run("check", "--policies", str(ROOT / "policies"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_first_key_opens_every_replica(deployment: Deployment) -> None:
    refused = deployment.run("serve", "--policies", str(ROOT / "policies"), "--port", "0")
    assert refused.returncode == 1
    assert "gateway keys create" in refused.stderr

    (written,) = re.findall(r"run --rm gateway gateway (keys create) --config \S+ (.+)", compose_text())
    made = deployment.run(*written[0].split(), *written[1].split(), "--json")
    assert made.returncode == 0, made.stderr
    key = orjson.loads(made.stdout)["key"]

    question = {"model": "demo", "messages": [{"role": "user", "content": "Which tone should our pages have?"}]}
    with ExitStack() as stack:
        for address in [stack.enter_context(deployment.serve()) for _ in range(REPLICAS)]:
            assert fetch(f"{address}/readyz")[0] == 200
            assert fetch(f"{address}/v1/chat/completions", body=question)[0] == 401
            assert fetch(f"{address}/v1/chat/completions", key, question)[0] == 200
            status, metrics = fetch(f"{address}/metrics")
            assert status == 200, metrics
            samples = [one for family in text_string_to_metric_families(metrics.decode()) for one in family.samples]
            answered = [sample.value for sample in samples if sample.name == "gateway_requests_total"]
            assert sum(answered) >= 1


def compose_text() -> str:
    return (ROOT / "compose.yaml").read_text(encoding="utf-8")
