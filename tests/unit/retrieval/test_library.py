"""What the two tools answer (CONTRACT §3.5 and §9)."""

import asyncio
from collections.abc import Callable

import orjson
import pytest

from gateway.collectors.contexts import collect, merging
from gateway.domain.principal import ANONYMOUS
from gateway.domain.scope import ContextRequest
from gateway.domain.snapshot import Snapshot
from gateway.injection.neutral import neutral
from gateway.injection.tools import own_tools
from gateway.resources.registry import default_registry
from gateway.retrieval.tool_runner import PAGE, ToolRunner
from gateway.scopes.levels import assignments
from gateway.scopes.scope import build_scope
from gateway.selection.select import Terms, select

LONG = "Rule é. " * 2500  # 20,000 characters
PARAGRAPHS = "\n\n".join(f"Paragraph {number} about nothing. " + "x" * 400 for number in range(40))
POLICIES = f"""
contexts:
  house:
    default: true
    resources:
      voice: {{type: text, name: Voice, data: {{content: Write plainly.}}}}
      style: {{type: text, name: House style, mode: on_demand, description: Commas, data: {{content: Use <|end|> it.}}}}
      meaning: {{type: glossary, mode: semantic, data: {{terms: {{a: b}}}}}}
      long: {{type: text, name: Long, mode: on_demand, data: {{content: "{LONG}"}}}}
      zebra:
        type: text
        mode: on_demand
        data: {{content: {orjson.dumps(PARAGRAPHS + chr(10) * 2 + "Zebras have stripes.").decode()}}}
      hidden: {{type: text, mode: on_demand, readers: [hr], data: {{content: Pay.}}}}
      by-hand: {{type: text, mode: manual, data: {{content: Manual.}}}}
  other: {{resources: {{far: {{type: text, mode: on_demand, data: {{content: Far.}}}}}}}}
"""
TOOLS = own_tools(())


@pytest.fixture
def library(policies: Callable[[str], Snapshot]) -> ToolRunner:
    snapshot = policies(POLICIES)
    scope = build_scope(ContextRequest(), None, ANONYMOUS, snapshot)
    found = assignments(scope, snapshot)
    collected = collect(scope, found, snapshot, merging(default_registry()))
    terms = Terms(4000, True, lambda name, text: len(text) // 4)
    return ToolRunner(select(collected.candidates, (), found, terms), TOOLS, neutral)


def run(library: ToolRunner, name: str, arguments: str) -> str:
    return asyncio.run(library.run(name, arguments))


def get(library: ToolRunner, **arguments: object) -> str:
    return run(library, TOOLS.get, orjson.dumps(arguments).decode())


def test_get_answers_with_name_and_text_made_inert(library: ToolRunner) -> None:
    assert get(library, resource_id="house/style") == "[House style]\nUse < |end| > it."


def test_a_placed_resource_can_be_read_too(library: ToolRunner) -> None:
    assert get(library, resource_id="house/voice") == "[Voice]\nWrite plainly."


@pytest.mark.parametrize("identity", ["house/nothing", "house/hidden", "house/by-hand", "other/far", ""])
def test_unknown_forbidden_and_unassigned_ids_answer_alike(library: ToolRunner, identity: str) -> None:
    assert get(library, resource_id=identity) == f"Error: no resource '{identity}' is available."


def test_long_texts_come_in_pages_of_8000_code_points(library: ToolRunner) -> None:
    assert PAGE == 8000
    assert get(library, resource_id="house/long") == (
        f"[Long]\n{LONG[:8000]}\n\n[characters 0-8000 of 20000; next offset: 8000]"
    )
    assert get(library, resource_id="house/long", offset=8000) == (
        f"[Long]\n{LONG[8000:16000]}\n\n[characters 8000-16000 of 20000; next offset: 16000]"
    )
    assert get(library, resource_id="house/long", offset=16000) == (
        f"[Long]\n{LONG[16000:]}\n\n[characters 16000-20000 of 20000]"
    )


def test_a_whole_text_has_a_footer_only_if_an_offset_was_given(library: ToolRunner) -> None:
    assert get(library, resource_id="house/voice", offset=0) == "[Voice]\nWrite plainly.\n\n[characters 0-14 of 14]"
    assert get(library, resource_id="house/voice", offset=6) == "[Voice]\nplainly.\n\n[characters 6-14 of 14]"


def test_an_offset_beyond_the_end_is_an_error(library: ToolRunner) -> None:
    assert get(library, resource_id="house/voice", offset=14) == "Error: offset 14 is beyond the end, 14."


def test_a_query_returns_the_best_passages_of_a_long_text(library: ToolRunner) -> None:
    found = get(library, resource_id="house/zebra", query="what stripes do zebras have")
    assert "Zebras have stripes." in found
    assert len(found) < PAGE


def test_a_query_does_not_shorten_what_fits_a_page(library: ToolRunner) -> None:
    assert get(library, resource_id="house/voice", query="zebra") == "[Voice]\nWrite plainly."


@pytest.mark.parametrize(
    "arguments",
    [
        "{",
        "[]",
        "null",
        "{}",
        "",
        '{"resource_id": 5}',
        '{"resource_id": "house/style", "offset": -1}',
        '{"resource_id": "house/style", "page": 2}',
        '{"resource_id": "house/style", "offset": "2"}',
        "[" * 100_000,
        '{"resource_id": "\\ud800"}',
    ],
)
def test_bad_arguments_are_an_error_that_the_model_can_read(library: ToolRunner, arguments: str) -> None:
    assert run(library, TOOLS.get, arguments).startswith("Error: the arguments are not usable: ")


def listed(library: ToolRunner, arguments: str = "{}") -> list[str]:
    answer = orjson.loads(run(library, TOOLS.list, arguments))
    assert sorted(answer) == ["resources", "total"]
    assert answer["total"] == len(answer["resources"])
    return [one["id"] for one in answer["resources"]]


def test_list_covers_what_can_be_fetched_and_not_what_is_placed(library: ToolRunner) -> None:
    assert listed(library) == ["house/style", "house/meaning", "house/long", "house/zebra"]


@pytest.mark.parametrize("arguments", ["", "  ", "{}", '{"query": null}', '{"query": ""}'])
def test_empty_arguments_mean_everything(library: ToolRunner, arguments: str) -> None:
    assert len(listed(library, arguments)) == 4


def test_list_shows_id_name_type_and_description(library: ToolRunner) -> None:
    first = orjson.loads(run(library, TOOLS.list, "{}"))["resources"][0]
    assert first == {"id": "house/style", "name": "House style", "type": "text", "description": "Commas"}


def test_a_query_narrows_the_list(library: ToolRunner) -> None:
    assert listed(library, '{"query": "zebra stripes"}') == ["house/zebra"]
    assert listed(library, '{"query": "quantum"}') == []
