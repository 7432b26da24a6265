"""The fixtures of the wire tests, for clients that are installed by `scripts/clients` only."""

import shutil
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.clients.node_adapter import NodeProcess
from tests.support.gateway import Client, Thread, running_gateway
from tests.support.upstream import Upstream
from tests.wire.conftest import scripted, thread, upstream

__all__ = ["gateway", "scripted", "thread", "upstream"]

if find_spec("instructor") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def gateway(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A gateway in front of an upstream that speaks chat completions only: the other dialects are translated."""
    with running_gateway(thread, tmp_path_factory.mktemp("clients"), scripted.base_url) as client:
        yield client


@pytest.fixture(scope="session")
def node(gateway: Client) -> Iterator[NodeProcess]:
    """The clients of Node, all in one process."""
    if shutil.which("node") is None:
        pytest.skip("there is no node on this machine")
    process = NodeProcess(f"http://127.0.0.1:{gateway.port}")
    yield process
    process.close()
