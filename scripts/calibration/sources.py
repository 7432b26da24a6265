"""The labelled sets: where their data comes from, and how it becomes resources and questions.

folder in SOURCES   what and where                                                                  licence
banking77/          train.csv, test.csv, categories.json of PolyAI's banking77                      CC BY 4.0
clinc/              data/data_full.json of github.com/clinc/oos-eval at 828f809                     CC BY 3.0
bfcl/               bfcl_eval/data of the Berkeley leaderboard, github.com/ShishirPatil/gorilla
                    at 6ea5797 (BFCL_v4_*.json, possible_answer/)                                   Apache 2.0
wikiqa/             WikiQA-dev.tsv, WikiQA-test-gold.tsv (data/raw of github.com/yizhongw/WikiQA-Selection)
                                                                                                    MSR data licence
cmrc/               squad-style-data/cmrc2018_trial.json of github.com/ymcui/cmrc2018 at c0eb1b6    CC BY-SA 4.0
debian/             Translation-{en,de,es,fr,ru,zh_CN,ja} of bookworm, main/i18n, unpacked          as the packages
The functions are those of the running Python's standard library.
"""

import ast
import csv
import json
import random
import re
import sysconfig
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXAMPLES = 5
LONGEST = 400  # characters of a question


@dataclass(frozen=True, slots=True)
class Item:
    """What a resource is found by."""

    name: str
    description: str = ""
    text: str = ""
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the places of the items that answer it."""

    text: str
    relevant: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """Items and questions of one kind; sets of one family are held out together."""

    name: str
    family: str
    items: tuple[Item, ...]
    questions: tuple[Question, ...]


def intents(name: str, train: list[tuple[str, str]], test: list[tuple[str, str]]) -> LabelledSet:
    """Each intent a resource with a few of its training questions as examples."""
    rng = random.Random(name)
    known: dict[str, list[str]] = defaultdict(list)
    for text, intent in train:
        known[intent].append(text)
    places = {intent: place for place, intent in enumerate(sorted(known))}
    items = tuple(
        Item(intent.replace("_", " "), examples=tuple(rng.sample(known[intent], EXAMPLES))) for intent in places
    )
    questions = [Question(text, (places[intent],)) for text, intent in test]
    rng.shuffle(questions)
    return LabelledSet(name, name, items, tuple(questions))


def banking(folder: Path) -> Iterator[LabelledSet]:
    # Its test questions are left to scripts/eval-banking.
    rows = _csv(folder / "train.csv")
    yield intents("banking77", rows[::2], rows[1::2])


def clinc(folder: Path) -> Iterator[LabelledSet]:
    data = json.loads((folder / "data_full.json").read_text())
    yield intents("clinc150", data["train"], data["test"])


def bfcl(folder: Path) -> Iterator[LabelledSet]:
    """Function definitions with the requests that call them, in three pools without look-alikes."""
    tools, asked = _calls(folder)
    names = _distinct(tools)
    rng = random.Random("bfcl")
    rng.shuffle(names)
    for number, pool in enumerate((names[:200], names[200:400], names[400:800])):
        places = {name: place for place, name in enumerate(pool)}
        questions = [
            Question(text, tuple(places[name] for name in called))
            for text, called in sorted(asked)
            if all(name in places for name in called)
        ]
        rng.shuffle(questions)
        items = tuple(Item(name, tools[name]) for name in pool)
        yield LabelledSet(f"tools-{number}", "tools", items, tuple(questions))


def wikiqa(folder: Path) -> Iterator[LabelledSet]:
    """Questions and the sentences of Wikipedia that answer them."""
    places: dict[str, int] = {}
    answers: dict[str, list[int]] = defaultdict(list)
    for part in ("WikiQA-dev.tsv", "WikiQA-test-gold.tsv"):
        for row in (line.split("\t") for line in (folder / part).read_text().splitlines()):
            question, sentence, label = row[-3:] if len(row) == 3 else (row[1], row[5], row[6])
            if label.strip() not in ("0", "1"):
                continue
            place = places.setdefault(sentence, len(places))
            answers[question].extend([place] if label.strip() == "1" else [])
    questions = tuple(Question(text, tuple(found)) for text, found in answers.items() if found)
    yield LabelledSet("wikiqa", "wikiqa", tuple(Item("", text=text) for text in places), questions)


def cmrc(folder: Path) -> Iterator[LabelledSet]:
    """Chinese questions and the paragraphs that answer them."""
    articles = json.loads((folder / "cmrc2018_trial.json").read_text())["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    items = tuple(Item("", text=paragraph["context"]) for paragraph in paragraphs)
    asked = [(qa["question"], place) for place, paragraph in enumerate(paragraphs) for qa in paragraph["qas"]]
    random.Random("cmrc").shuffle(asked)
    yield LabelledSet("cmrc", "cmrc", items, tuple(Question(text, (place,)) for text, place in asked))


def debian(folder: Path) -> Iterator[LabelledSet]:
    """One-line summaries of packages as questions, their long descriptions as resources."""
    for path in sorted(folder.glob("Translation-*")):
        language = path.name.partition("-")[2]
        dense = language[:2] in ("zh", "ja")
        shortest = (8, 60) if dense else (25, 200)
        pairs = [pair for pair in _packages(path.read_text()) if all(map(_longer, pair, shortest))]
        random.Random(language).shuffle(pairs)
        items = tuple(Item("", text=text) for _, text in pairs[:400])
        questions = tuple(Question(summary, (place,)) for place, (summary, _) in enumerate(pairs[:400]))
        family = {"en": "debian-en", "zh_CN": "debian-cjk", "ja": "debian-cjk", "ru": "debian-ru"}.get(
            language, "debian-latin"
        )
        yield LabelledSet(f"debian-{language}", family, items, questions)


def functions(_: Path) -> Iterator[LabelledSet]:
    """The first sentence of a docstring as question, the function without it as resource."""
    found = sorted(_documented(Path(sysconfig.get_paths()["stdlib"])))
    random.Random("functions").shuffle(found)
    items = tuple(Item(name, text=code) for _, name, code in found[:1400])
    questions = tuple(Question(sentence, (place,)) for place, (sentence, _, _) in enumerate(found[:1400]))
    yield LabelledSet("functions", "functions", items, questions)


READERS: dict[str, Callable[[Path], Iterator[LabelledSet]]] = {
    "banking77": banking,
    "clinc": clinc,
    "bfcl": bfcl,
    "wikiqa": wikiqa,
    "cmrc": cmrc,
    "debian": debian,
    "functions": functions,
}


def read_all(sources: Path) -> list[LabelledSet]:
    """Every set, in the same order each time; raises FileNotFoundError for a source that is not there."""
    return [labelled for folder, read in READERS.items() for labelled in read(sources / folder)]


def _csv(path: Path) -> list[tuple[str, str]]:
    with path.open(newline="") as file:
        return [(row["text"], row["category"]) for row in csv.DictReader(file)]


def _calls(folder: Path) -> tuple[dict[str, str], set[tuple[str, tuple[str, ...]]]]:
    tools: dict[str, str] = {}
    asked: set[tuple[str, tuple[str, ...]]] = set()
    for kind in ("simple_python", "multiple", "live_simple", "live_multiple", "parallel", "parallel_multiple"):
        answers = {row["id"]: row["ground_truth"] for row in _lines(folder / f"possible_answer/BFCL_v4_{kind}.json")}
        for row in _lines(folder / f"BFCL_v4_{kind}.json"):
            for function in row["function"]:
                tools.setdefault(function["name"], function["description"])
            said = [message["content"] for turn in row["question"] for message in turn if message["role"] == "user"]
            if len(said) == 1 and len(said[0]) <= LONGEST:
                asked.add((said[0], tuple(sorted({name for call in answers[row["id"]] for name in call}))))
    return tools, asked


def _distinct(tools: dict[str, str]) -> list[str]:
    """Names without those that only repeat another's last word or description."""
    seen: set[str] = set()
    kept: list[str] = []
    for name in sorted(tools):
        marks = {re.sub("[^a-z]", "", name.split(".")[-1].lower()), tools[name].strip().lower()[:40]}
        if not marks & seen:
            kept.append(name)
        seen |= marks
    return kept


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _packages(text: str) -> list[tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for stanza in text.split("\n\n"):
        match = re.match(r"Package: (\S+)\n.*?Description-(?!md5)\S+: (.*?)\n(.*)", stanza, re.DOTALL)
        if match and not re.search(r"^lib|-(?:dev|doc|data|dbg|perl)$", match[1]):
            body = re.sub(r"^ ", "", re.sub(r"\n ?\.?\n", "\n", match[3]), flags=re.MULTILINE).strip()
            found.setdefault(body[:60], (match[2], body[:1500]))
    return [found[key] for key in sorted(found)]


def _longer(text: str, length: int) -> bool:
    return len(text) >= length


def _documented(root: Path) -> Iterator[tuple[str, str, str]]:
    seen: set[str] = set()
    for path in sorted(root.rglob("*.py")):
        if {"test", "tests", "site-packages", "idlelib", "lib2to3", "ensurepip"} & set(path.parts):
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (documentation := ast.get_docstring(node)):
                sentence = re.split(r"(?<=[.!?])\s|\n\n", documentation)[0].replace("\n", " ").strip()
                node.body = node.body[1:]
                code = ast.unparse(node) if node.body else ""
                if 25 <= len(sentence) <= 200 and 120 <= len(code) <= 3000 and sentence not in seen:
                    seen.add(sentence)
                    yield sentence, node.name, code
