"""Sets of tools with the requests that call them."""

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.calibration_training.labelled import Item, LabelledQuestion, LabelledSet

LONGEST = 400  # characters of a question
CALLS = 8  # of a service, that its text names


def read_bfcl(folder: Path) -> Iterator[LabelledSet]:
    """Function definitions with the requests that call them, in three pools without look-alikes."""
    tools, asked = _read_calls(folder)
    names = _drop_look_alikes(tools)
    rng = random.Random("bfcl")
    rng.shuffle(names)
    for number, pool in enumerate((names[:200], names[200:400], names[400:800])):
        places = {name: place for place, name in enumerate(pool)}
        questions = [
            LabelledQuestion(text, tuple(places[name] for name in called))
            for text, called in sorted(asked)
            if all(name in places for name in called)
        ]
        rng.shuffle(questions)
        items = tuple(Item(name, tools[name]) for name in pool)
        yield LabelledSet(f"tools-{number}", "tools", items, tuple(questions))


def read_toolbench(folder: Path) -> Iterator[LabelledSet]:
    """Services of a market place, each with its calls as text, and the requests that need one or several of them."""
    calls: dict[str, dict[str, str]] = defaultdict(dict)
    asked: list[tuple[str, list[str]]] = []
    for path in sorted(folder.glob("G*.json")):
        for row in json.loads(path.read_text()):
            for call in row["api_list"]:
                line = f"{call['api_name']}: {call['api_description'] or ''}"
                calls[call["tool_name"]].setdefault(call["api_name"], line[:200])
            if isinstance(row["query"], str) and len(row["query"]) <= LONGEST:
                asked.append((row["query"], [tool for tool, _ in row["relevant APIs"]]))
    places = {name: place for place, name in enumerate(sorted(calls))}
    items = tuple(Item(name, text="\n".join([*calls[name].values()][:CALLS])) for name in places)
    named = [(text, {places[tool] for tool in tools if tool in places}) for text, tools in asked]
    questions = [LabelledQuestion(text, tuple(sorted(found))) for text, found in named if found]
    random.Random("toolbench").shuffle(questions)
    yield LabelledSet("toolbench", "toolbench", items, tuple(questions))


def _read_calls(folder: Path) -> tuple[dict[str, str], set[tuple[str, tuple[str, ...]]]]:
    tools: dict[str, str] = {}
    asked: set[tuple[str, tuple[str, ...]]] = set()
    for kind in ("simple_python", "multiple", "live_simple", "live_multiple", "parallel", "parallel_multiple"):
        answers = {
            row["id"]: row["ground_truth"] for row in _read_json_lines(folder / f"possible_answer/BFCL_v4_{kind}.json")
        }
        for row in _read_json_lines(folder / f"BFCL_v4_{kind}.json"):
            for function in row["function"]:
                tools.setdefault(function["name"], function["description"])
            said = [message["content"] for turn in row["question"] for message in turn if message["role"] == "user"]
            if len(said) == 1 and len(said[0]) <= LONGEST:
                asked.add((said[0], tuple(sorted({name for call in answers[row["id"]] for name in call}))))
    return tools, asked


def _drop_look_alikes(tools: dict[str, str]) -> list[str]:
    """Names without those that only repeat another's last word or description."""
    seen: set[str] = set()
    kept: list[str] = []
    for name in sorted(tools):
        marks = {re.sub("[^a-z]", "", name.split(".")[-1].lower()), tools[name].strip().lower()[:40]}
        if not marks & seen:
            kept.append(name)
        seen |= marks
    return kept


def _read_json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
