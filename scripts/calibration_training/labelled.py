"""A labelled set: resources as they are found, and questions with the resources that answer them."""

import random
from collections import defaultdict
from dataclasses import dataclass

EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Item:
    """What a resource is found by."""

    name: str
    description: str = ""
    text: str = ""
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """A question and the places of the items that answer it."""

    text: str
    relevant: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """Items and questions of one kind; sets of one family are held out together."""

    name: str
    family: str
    items: tuple[Item, ...]
    questions: tuple[LabelledQuestion, ...]


def build_intent_set(name: str, train: list[tuple[str, str]], test: list[tuple[str, str]]) -> LabelledSet:
    """Each intent a resource with a few of its training questions as examples."""
    rng = random.Random(name)
    known: dict[str, list[str]] = defaultdict(list)
    for text, intent in train:
        known[intent].append(text)
    places = {intent: place for place, intent in enumerate(sorted(known))}
    items = tuple(
        Item(intent.replace("_", " "), examples=tuple(rng.sample(known[intent], EXAMPLES))) for intent in places
    )
    questions = [LabelledQuestion(text, (places[intent],)) for text, intent in test]
    rng.shuffle(questions)
    return LabelledSet(name, name, items, tuple(questions))
