"""One gateway and one scripted upstream for all wire tests; `start` gives a test a gateway of its own."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.semantic.node_search import NodeSearch
from gateway.tokens import BpeCounter
from tests.support.dialect_caller import Caller
from tests.support.gateway import Client, Start, Thread, running_gateway, running_upstream
from tests.support.search_server import SearchServer, serving_searches
from tests.support.spoken import CHAT_MODEL, DIALECTS, MESSAGES_MODEL, TRANSLATED, Spoken
from tests.support.upstream import Upstream


@pytest.fixture(scope="session")
def thread() -> Iterator[Thread]:
    thread, counter = Thread(), BpeCounter()
    with pytest.MonkeyPatch.context() as patch:
        # Every gateway of the tests counts with the same one: to load its vocabulary takes half a second.
        patch.setattr("gateway.app.BpeCounter", lambda: counter)
        # A request waits a tenth of a second for an index of nodes that is being made, which may be too little here.
        patch.setattr("gateway.app.NodeSearch", partial(NodeSearch, patience=10.0))
        yield thread
    thread.stop()


@pytest.fixture(scope="session")
def scripted(thread: Thread) -> Iterator[Upstream]:
    with running_upstream(thread) as upstream:
        yield upstream


@pytest.fixture
def upstream(scripted: Upstream) -> Iterator[Upstream]:
    """The upstream with an empty script; a test has to use up what it wrote."""
    scripted.reset()
    yield scripted
    assert not scripted.script, "the gateway made fewer calls than the script has steps"


@pytest.fixture(scope="module")
def served() -> Iterator[SearchServer]:
    """What retrievers ask."""
    with serving_searches() as server:
        yield server


@pytest.fixture
def search(served: SearchServer) -> SearchServer:
    """The same, as if nobody had asked it."""
    served.reset()
    return served


@pytest.fixture(scope="session")
def gateway(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    account = {"base_url": scripted.base_url, "api_key": "sk-upstream", "retries": 0}
    upstreams = {
        "scripted": {"kind": "openai", "responses": True, **account},
        "chat": {"kind": "openai", **account},
        "claude": {"kind": "anthropic", **account},
    }
    named = {MESSAGES_MODEL: "claude", CHAT_MODEL: "chat", "*": "scripted"}
    routes = [{"model": model, "upstream": name} for model, name in named.items()]
    directory = tmp_path_factory.mktemp("gateway")
    with running_gateway(thread, directory, scripted.base_url, upstreams=upstreams, routes=routes) as client:
        yield client


@pytest.fixture
def start(thread: Thread, scripted: Upstream, tmp_path: Path) -> Iterator[Start]:
    """Start a gateway with other settings or policies: `start(store="sqlite:////…", defaults={…})`."""
    with ExitStack() as stack:

        def started(**changes: Any) -> Client:
            return stack.enter_context(running_gateway(thread, tmp_path, scripted.base_url, **changes))

        yield started


@pytest.fixture(params=[False, True], ids=["whole", "stream"])
def stream(request: pytest.FixtureRequest) -> bool:
    """Both forms of a reply."""
    return bool(request.param)


@pytest.fixture(params=[*DIALECTS, *TRANSLATED])
def spoken(request: pytest.FixtureRequest) -> Spoken:
    """Every dialect of clients, with every kind of upstream."""
    return {**DIALECTS, **TRANSLATED}[request.param]


@pytest.fixture
def caller(gateway: Client, spoken: Spoken, stream: bool) -> Caller:
    return Caller(gateway, spoken, stream)
