"""banking77 as policies with a resource for each intent, and cases with the test questions."""

import csv
import json
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.evaluation.cases import Case

CONTEXT = "banking"
EXAMPLES = 5  # of the training questions, for each resource
OFF_TOPIC = Path(__file__).parent / "off_topic.txt"


@dataclass(frozen=True, slots=True)
class Banking:
    """The rows of the data set: question and intent."""

    train: list[tuple[str, str]]
    test: list[tuple[str, str]]

    @classmethod
    def read(cls, folder: Path) -> "Banking":
        """Raises FileNotFoundError if the data is not there."""
        return cls(_read_rows(folder / "train.csv"), _read_rows(folder / "test.csv"))

    def select_intents(self, seed: int, intents: int) -> "Banking":
        """Only some of the intents and their questions: most policies have few resources."""
        known = sorted({intent for _, intent in self.train})
        kept = set(random.Random(seed).sample(known, min(intents, len(known))))
        return Banking([row for row in self.train if row[1] in kept], [row for row in self.test if row[1] in kept])

    def build_policies(self, seed: int) -> dict[str, Any]:
        """One context for everybody, each intent a semantic resource with a few training questions as examples."""
        rng = random.Random(seed)
        known: dict[str, list[str]] = defaultdict(list)
        for text, intent in self.train:
            known[intent].append(text)
        resources = {
            make_alias(intent): _build_resource(intent, rng.sample(known[intent], EXAMPLES)) for intent in sorted(known)
        }
        return {"contexts": {CONTEXT: {"default": True, "resources": resources}}}

    def build_cases(self, seed: int, most: int | None) -> Iterator[Case]:
        """The test questions, or a sample of them."""
        rows = self.test if most is None else random.Random(seed).sample(self.test, min(most, len(self.test)))
        for text, intent in rows:
            yield Case(text, frozenset({f"{CONTEXT}/{make_alias(intent)}"}))


def read_off_topic_cases() -> list[Case]:
    """Everyday questions that no bank could answer."""
    return [Case(line) for line in OFF_TOPIC.read_text(encoding="utf-8").splitlines() if line]


def make_alias(intent: str) -> str:
    """An intent's name within the bounds of an alias (`Refund_not_showing_up`, `reverted_card_payment?`)."""
    return intent.lower().replace("_", "-").strip("?")


def write_policies(policies: dict[str, Any], directory: Path) -> None:
    # JSON is YAML, and its quoting is simple.
    (directory / "banking.yaml").write_text(json.dumps(policies, ensure_ascii=False), encoding="utf-8")


def _build_resource(intent: str, examples: list[str]) -> dict[str, Any]:
    name = intent.replace("_", " ").strip("?")
    questions = [" ".join(example.split()) for example in examples]
    return {"type": "text", "mode": "semantic", "name": name, "examples": questions, "data": {"content": name}}


def _read_rows(path: Path) -> list[tuple[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return [(row["text"], row["category"]) for row in csv.DictReader(file)]
