"""The worked examples of CONTRIBUTING.md work as they stand."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.domain.principal import ANONYMOUS, Principal
from gateway.domain.scope import ContextRequest
from gateway.domain.snapshot import Snapshot
from gateway.domain.upstream import UpstreamRequest
from gateway.resources.registry import ResourceRegistry
from gateway.scopes.scope import build_scope

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def examples() -> dict[str, Any]:
    """Everything that the examples define."""
    names: dict[str, Any] = {"__name__": "examples"}
    for source in EXAMPLE.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        exec(source, names)
    return names


def test_the_resource_type_renders(examples: dict[str, Any]) -> None:
    kind = ResourceRegistry([examples["ChecklistType"]()]).get("checklist")
    assert kind is not None
    data = kind.data.model_validate({"points": ["Units are metric", "Dates are ISO"]})
    assert kind.render(data, None) == "- [ ] Units are metric\n- [ ] Dates are ISO"


NESTED = """
contexts:
  open: {resources: {one: {type: text, data: {content: One}}}}
  closed: {resources: {two: {type: text, data: {content: Two}}}}
content:
  start: {children: {news: {contexts: [open]}, board: {readers: [group:board], contexts: [closed]}}}
"""


@pytest.mark.parametrize(
    ("caller", "expected"),
    [(ANONYMOUS, ["open/one"]), (Principal("ada", groups=frozenset({"board"})), ["open/one", "closed/two"])],
)
def test_the_collector_proposes_what_the_caller_may_read(
    examples: dict[str, Any], policies: Callable[[str], Snapshot], caller: Principal, expected: list[str]
) -> None:
    snapshot = policies(NESTED)
    scope = build_scope(ContextRequest(content="start"), None, caller, snapshot)
    proposed = list(examples["propose_below"](scope, snapshot))
    assert [candidate.resource.id for candidate in proposed] == expected
    assert proposed[0].why == "assigned to start/news, below"


async def test_the_upstream_answers(examples: dict[str, Any]) -> None:
    upstream = examples["EchoUpstream"]("echo")
    body = orjson.dumps({"model": "echo", "messages": [{"role": "user", "content": "Hello"}]})
    reply = await upstream.send(UpstreamRequest("/chat/completions", body, model="echo"))
    assert orjson.loads(await reply.read_all())["choices"][0]["message"]["content"] == "Hello"
    refused = await upstream.send(UpstreamRequest("/embeddings", b"{}"))
    assert refused.status == 404
