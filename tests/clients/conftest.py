"""The fixtures of the wire tests, for clients that are installed by `scripts/clients` only."""

import gc
import shutil
import ssl
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.clients.node_adapter import NodeProcess
from tests.clients.scenario import MESSAGES_MODEL, RESPONSES_MODEL
from tests.support.gateway import Client, Thread, running_gateway
from tests.support.upstream import Upstream
from tests.wire.conftest import scripted, stream, thread, upstream

__all__ = ["gateway", "scripted", "stream", "thread", "upstream"]

if find_spec("instructor") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session", autouse=True)
def no_certificates() -> Iterator[None]:
    """All requests go to this machine, without TLS: to load certificates would take clients longer than to ask."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_, **__: None)
        patch.setattr(ssl.SSLContext, "load_default_certs", lambda *_, **__: None)
        yield


@pytest.fixture(autouse=True)
def garbage_between_tests() -> Iterator[None]:
    """Collect what a test leaves behind after it, not amid the next one.

    A client that drops a stream leaves it to the garbage collector. If that runs while another client asks for a
    connection, it closes the stream under the lock of the same pool, and httpcore waits for itself for ever.
    """
    gc.disable()
    yield
    gc.collect(1)


@pytest.fixture(scope="session")
def gateway(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A gateway in front of an upstream for each dialect: the model says whether a client's own is translated."""
    account = {"base_url": scripted.base_url, "api_key": "sk-upstream", "retries": 0}
    upstreams = {
        "chat": {"kind": "openai", **account},
        "responses": {"kind": "openai", "responses": True, **account},
        "messages": {"kind": "anthropic", **account},
    }
    named = {RESPONSES_MODEL: "responses", MESSAGES_MODEL: "messages", "*": "chat"}
    routes = [{"model": model, "upstream": name} for model, name in named.items()]
    directory = tmp_path_factory.mktemp("clients")
    with running_gateway(thread, directory, scripted.base_url, upstreams=upstreams, routes=routes) as client:
        yield client


@pytest.fixture(scope="session")
def node(gateway: Client) -> Iterator[NodeProcess]:
    """The clients of Node, all in one process."""
    if shutil.which("node") is None:
        pytest.skip("there is no node on this machine")
    process = NodeProcess(f"http://127.0.0.1:{gateway.port}")
    yield process
    process.close()
