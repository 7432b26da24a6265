"""Whatever happens to the embedder, chats go on: what is semantic stays on demand, and the reply says so."""

import asyncio
import copy
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from gateway.collectors.semantic import SemanticCollector
from gateway.domain.collector import Findings
from gateway.semantic.factory import SemanticFactory, open_embedder
from gateway.semantic.index.indexer import IndexerOptions
from gateway.semantic.model.embedder import Embedder
from gateway.semantic.model.files import MODEL, TOKENIZER, ModelFiles, get_built_folder, locate_model
from gateway.semantic.model.onnx_embedder import OnnxEmbedder
from gateway.semantic.model.onnx_model import OnnxModel, normalise_vectors
from gateway.semantic.service import WARM_UP
from gateway.settings import SemanticSettings
from tests.support.gateway import Client, ClientReply, Start, Thread
from tests.support.limits import with_limits
from tests.support.semantic_gateway import (
    ASKED,
    INVOICE,
    PASSWORD,
    POLICIES,
    Embeddings,
    ask_and_list_injected,
    catalogue,
    rewrite,
    run_indexing,
    running_embeddings,
    vector,
    wait_until_indexed,
    write_cosine_calibration,
)
from tests.support.upstream import Upstream, call, say, wait_for

IDS = ["help/password", "help/invoice", "help/refund", "help/animals"]
RETRY = 0.05


@pytest.fixture
def embeddings(thread: Thread) -> Iterator[Embeddings]:
    with running_embeddings(thread) as endpoint:
        yield endpoint


class Begin:
    """Starts gateways with semantic search and its background work; what failed is retried soon."""

    def __init__(self, start: Start, directory: Path, stack: ExitStack) -> None:
        self._start, self._directory, self._stack = start, directory, stack
        self.open_embedder: Callable[[SemanticSettings], Embedder] = partial(open_embedder, retry_seconds=RETRY)

    def __call__(self, embedder: dict[str, Any], milliseconds: int = 5000, **changes: Any) -> Client:
        calibration = write_cosine_calibration(self._directory)
        semantic = {"enabled": True, "embedder": embedder, "milliseconds": milliseconds, "calibration": calibration}
        client = self._start(policies=POLICIES, semantic=semantic, **changes)
        assert client.app.semantic is not None
        client.app.semantic.factory = SemanticFactory(
            self.open_embedder, indexer=IndexerOptions(retry_seconds=RETRY), retry_seconds=RETRY
        )
        self._stack.enter_context(run_indexing(client))
        return client


@pytest.fixture
def begin(start: Start, tmp_path: Path) -> Iterator[Begin]:
    with ExitStack() as stack:
        yield Begin(start, tmp_path, stack)


def assert_on_demand(answered: ClientReply, names: list[str], upstream: Upstream) -> None:
    """Nothing semantic was placed, everything can be fetched, and the reply says what was missing."""
    assert names == ["Voice"]
    assert catalogue(upstream.requests[-1]) == IDS
    assert answered.headers.get("x-context-degraded") == "semantic"


async def until_injected(client: Client, upstream: Upstream) -> None:
    """Ask until what is relevant is placed again, without anything being degraded."""
    for number in range(200):
        answered, names = await ask_and_list_injected(client, upstream, f"{ASKED} Try {number}")
        if names == ["Voice", "Password"]:
            assert "x-context-degraded" not in answered.headers
            return
        await asyncio.sleep(RETRY / 2)
    pytest.fail("the search did not come back")


async def until_degraded(client: Client, upstream: Upstream) -> tuple[ClientReply, list[str]]:
    """The first reply that knows of the failure: before, resources are merely not embedded yet."""
    for number in range(400):
        answered, names = await ask_and_list_injected(client, upstream, f"{ASKED} Attempt {number}")
        assert names == ["Voice"]
        if "x-context-degraded" in answered.headers:
            return answered, names
        await asyncio.sleep(RETRY / 5)
    pytest.fail("nobody noticed the failure")


FAULTS = ["fails", "hangs", "nan", "zeros", "too few", "shorter"]


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_endpoint_that_goes_bad_costs_no_chat_and_is_used_again_when_it_is_well(
    begin: Begin, embeddings: Embeddings, upstream: Upstream, fault: str, stream: bool
) -> None:
    client = begin(embeddings.settings, milliseconds=400 if fault == "hangs" else 5000)
    wait_until_indexed(client)
    answered, names = await ask_and_list_injected(client, upstream, stream=stream)
    assert (names, "x-context-degraded" in answered.headers) == (["Voice", "Password"], False)
    embeddings.fault = fault
    # The question has to be a new one: what has been asked before is still known.
    answered, names = await ask_and_list_injected(client, upstream, f"{ASKED} Please", stream=stream)
    assert_on_demand(answered, names, upstream)
    answered, names = await ask_and_list_injected(client, upstream, stream=stream)
    assert (names, "x-context-degraded" in answered.headers) == (["Voice", "Password"], False)
    embeddings.fault = ""
    await until_injected(client, upstream)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in ("hangs", "shorter")])
async def test_an_endpoint_that_is_bad_from_the_start_is_waited_for(
    begin: Begin, embeddings: Embeddings, upstream: Upstream, fault: str
) -> None:
    embeddings.fault = fault
    client = begin(embeddings.settings)
    assert_on_demand(*await until_degraded(client, upstream), upstream)
    embeddings.fault = ""
    await until_injected(client, upstream)


async def test_an_endpoint_that_is_killed_and_started_again(
    begin: Begin, embeddings: Embeddings, upstream: Upstream, thread: Thread
) -> None:
    client = begin(embeddings.settings)
    wait_until_indexed(client)
    thread.run(embeddings.stop())
    answered, names = await ask_and_list_injected(client, upstream)
    assert_on_demand(answered, names, upstream)
    thread.run(embeddings.start())
    await until_injected(client, upstream)


async def test_the_tools_fall_back_to_words_while_there_is_no_search(
    begin: Begin, embeddings: Embeddings, upstream: Upstream
) -> None:
    client = begin(embeddings.settings)
    wait_until_indexed(client)
    embeddings.fault = "fails"
    queries = {"list_context_resources": {"query": "invoice"}}
    queries["get_context_resource"] = {"resource_id": "help/animals", "query": "which stripes do zebras have"}
    for tool, arguments in queries.items():
        upstream.will(call(tool, **arguments), say("Done."))
        answered = await client.chat("Something else", agent="helper")
        assert answered.text == "Done."
    results = [request["messages"][-1]["content"] for request in upstream.requests[1::2]]
    assert '"id":"help/invoice"' in results[0]
    assert "help/password" not in results[0]
    assert "black and white stripes" in results[1]


def model_copy(directory: Path) -> Path:
    """The installed model in a folder of its own, which a test may damage."""
    if not (get_built_folder() / MODEL).is_file():
        pytest.skip("the model was not built here")
    folder = directory / "model"
    shutil.copytree(get_built_folder(), folder)
    return folder


def corrupt(folder: Path) -> None:
    data = bytearray((folder / MODEL).read_bytes())
    data[len(data) // 2] ^= 0xFF
    (folder / MODEL).write_bytes(data)


def corrupt_without_manifest(folder: Path) -> None:
    (folder / MODEL).write_bytes(b"x")
    (folder / "manifest.json").unlink()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "corrupt model": corrupt,
    "corrupt model, no manifest": corrupt_without_manifest,
    "no tokenizer": lambda folder: (folder / TOKENIZER).unlink(),
    "no folder": shutil.rmtree,
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_model_costs_no_chat_and_is_used_once_it_is_mended(
    begin: Begin, upstream: Upstream, tmp_path: Path, damage: str
) -> None:
    folder = model_copy(tmp_path)
    DAMAGES[damage](folder)
    client = begin({"path": str(folder)})
    assert_on_demand(*await until_degraded(client, upstream), upstream)
    shutil.rmtree(folder, ignore_errors=True)
    model_copy(tmp_path)
    await until_injected(client, upstream)


class Slow:
    """A model to whom texts mean their words; `seconds` is what it takes for each, `fault` what else is wrong."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.fault = seconds, ""
        self.released = threading.Event()

    def normalise(self, text: str) -> str:
        return text

    def embed_text(self, text: str) -> NDArray[np.float32]:
        if self.fault == "raises":
            raise RuntimeError("out of memory")
        if self.fault == "hangs":
            self.released.wait(30)
        time.sleep(self.seconds)
        return normalise_vectors(np.array(vector(text), np.float32) * (np.nan if self.fault == "nan" else 1))


@pytest.fixture
def slow(begin: Begin) -> Iterator[Slow]:
    """The model in this process, behind the real embedder with its threads and its bound."""
    model = Slow()
    files = ModelFiles(Path(MODEL), Path(TOKENIZER), {MODEL: "m" * 64, TOKENIZER: "t" * 64})
    begin.open_embedder = lambda _: OnnxEmbedder(files, load=lambda _: model, retry_seconds=RETRY)
    yield model
    model.released.set()


@pytest.mark.parametrize("fault", ["raises", "hangs", "nan"])
async def test_a_model_in_this_process_that_goes_bad_costs_no_chat(
    begin: Begin, slow: Slow, upstream: Upstream, fault: str
) -> None:
    client = begin({}, milliseconds=400)
    wait_until_indexed(client)
    slow.fault = fault
    began = time.monotonic()
    answered, names = await ask_and_list_injected(client, upstream)
    assert time.monotonic() - began < 20  # of the 30 that it hangs
    assert_on_demand(answered, names, upstream)
    slow.fault = ""
    slow.released.set()
    await until_injected(client, upstream)


async def test_a_model_that_answers_with_no_numbers_is_found_out(
    begin: Begin, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    locate_model()  # raises where no model is installed
    pooled = OnnxModel._pool
    client = begin({})
    wait_until_indexed(client)
    monkeypatch.setattr(OnnxModel, "_pool", lambda self, hidden: pooled(self, hidden) * np.nan)
    answered, names = await ask_and_list_injected(client, upstream)
    assert_on_demand(answered, names, upstream)
    monkeypatch.setattr(OnnxModel, "_pool", pooled)
    await until_injected(client, upstream)


async def test_an_edit_embeds_only_what_changed_while_the_former_index_serves(
    begin: Begin, embeddings: Embeddings, upstream: Upstream
) -> None:
    client = begin(embeddings.settings)
    wait_until_indexed(client)
    embeddings.texts.clear()
    embeddings.holds = "holidays"
    edited = copy.deepcopy(POLICIES)
    edited["contexts"]["help"]["resources"]["refund"]["data"]["content"] = "All about holidays."
    rewrite(client, edited)
    wait_for(lambda: any("holidays" in text for text in embeddings.texts))
    answered, names = await ask_and_list_injected(client, upstream)
    assert (names, "x-context-degraded" in answered.headers) == (["Voice", "Password"], False)
    asked = "Tell me all about holidays"
    _, early = await ask_and_list_injected(client, upstream, "How money comes back: all about refunds")
    embeddings.holds = None
    wait_until_indexed(client)
    assert [text for text in embeddings.texts if "about holidays." in text] == [
        "Refund: How money comes back\n\nAll about holidays."
    ]
    passages = [text for text in embeddings.texts if text.startswith(("Password:", "Invoice:", "Animals"))]
    assert (early, passages) == (["Voice", "Refund"], [])
    _, names = await ask_and_list_injected(client, upstream, asked)
    assert names == ["Voice", "Refund"]


async def test_what_was_asked_during_an_edit_is_asked_anew_after_it(
    begin: Begin, embeddings: Embeddings, upstream: Upstream
) -> None:
    client = begin(embeddings.settings)
    wait_until_indexed(client)
    embeddings.holds = "Holidays"
    added = copy.deepcopy(POLICIES)
    holidays = {"type": "text", "name": "Holidays", "mode": "semantic", "data": {"content": "Offices close in May."}}
    added["contexts"]["help"]["resources"]["holidays"] = holidays
    rewrite(client, added)
    asked = "When do offices close in May?"
    _, early = await ask_and_list_injected(client, upstream, asked)
    embeddings.holds = None
    wait_until_indexed(client)
    _, later = await ask_and_list_injected(client, upstream, asked)
    assert (early, later) == (["Voice"], ["Voice", "Holidays"])


async def test_a_restart_embeds_nothing(
    begin: Begin, embeddings: Embeddings, upstream: Upstream, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path}/gateway.db"
    first = begin(embeddings.settings, store=store)
    wait_until_indexed(first)
    made = len(embeddings.texts)
    assert made > len(IDS)
    second = begin(embeddings.settings, store=store)
    wait_until_indexed(second)
    assert embeddings.texts[made:] == [WARM_UP]
    assert second.app.semantic is not None
    assert second.app.semantic.indexer is not None
    assert second.app.semantic.indexer.embedded == 0
    _, names = await ask_and_list_injected(second, upstream)
    assert names == ["Voice", "Password"]


@with_limits(loaded=(5.0, 1.0), quiet=(1.5, 0.2))  # seconds: of the slowest question, of half of the relays
async def test_many_questions_at_once_are_shed_in_time_and_relays_go_on(
    begin: Begin, slow: Slow, upstream: Upstream, limits: tuple[float, float]
) -> None:
    client = begin({}, milliseconds=150)
    wait_until_indexed(client)
    slow.seconds = 0.02  # two threads embed 15 of 32 questions in time
    upstream.will(*[say("Done.")] * 44)

    async def timed(asked: str, agent: str) -> tuple[ClientReply, float]:
        began = time.monotonic()
        answered = await client.chat(asked, agent=agent)
        return answered, time.monotonic() - began

    async def relays() -> list[float]:
        return [(await timed("Hi", "kind"))[1] for _ in range(12)]

    questions = asyncio.gather(*(timed(f"{ASKED} Number {number}", "helper") for number in range(32)))
    answers, relayed = await asyncio.gather(questions, relays())
    assert all(answered.status == 200 for answered, _ in answers)
    shed = [answered for answered, _ in answers if answered.headers.get("x-context-degraded") == "semantic"]
    served = [answered for answered, _ in answers if answered.headers["x-context-injected"] == "2"]
    assert len(shed) + len(served) == 32
    assert shed, "nothing was shed: questions were queued"
    assert served, "everything was shed"
    slowest, relay = limits
    assert max(seconds for _, seconds in answers) < slowest
    assert sorted(relayed)[len(relayed) // 2] < relay
    slow.seconds = 0.0
    await until_injected(client, upstream)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: a search that could not be made looks like one that found nothing."""
    collect = SemanticCollector.collect

    async def collect_without_reason(self: SemanticCollector, *asked: Any) -> Findings:
        found = await collect(self, *asked)
        return replace(found, search=found.search and replace(found.search, reason=None))

    monkeypatch.setattr(SemanticCollector, "collect", collect_without_reason)


@pytest.mark.usefixtures("silent")
async def test_a_failure_that_is_not_told_would_be_noticed(
    begin: Begin, embeddings: Embeddings, upstream: Upstream
) -> None:
    with pytest.raises(AssertionError):
        await test_an_endpoint_that_goes_bad_costs_no_chat_and_is_used_again_when_it_is_well(
            begin, embeddings, upstream, "fails", False
        )


@pytest.mark.parametrize("semantic", [{"enabled": False}, {"enabled": True}])
async def test_what_is_not_configured_or_not_needed_is_not_degraded(
    start: Start, upstream: Upstream, semantic: dict[str, Any]
) -> None:
    without = copy.deepcopy(POLICIES)
    if SemanticSettings.model_validate(semantic).enabled:
        for one in without["contexts"]["help"]["resources"].values():
            one["mode"] = "on_demand" if one.get("mode") == "semantic" else one.get("mode", "always")
    client = start(policies=without, semantic=semantic)
    answered, names = await ask_and_list_injected(client, upstream)
    assert (names, catalogue(upstream.requests[0])) == (["Voice"], IDS)
    assert "x-context-degraded" not in answered.headers
    assert PASSWORD not in upstream.bodies[0].decode()
    assert INVOICE not in upstream.bodies[0].decode()
