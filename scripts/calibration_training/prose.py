"""Sets of sentences, paragraphs and manual pages with the questions that they answer."""

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from scripts.calibration_training.labelled import Item, LabelledQuestion, LabelledSet

PARAGRAPHS = 400
PAGES = 300
LANGUAGES = {"pages": "en", "pages.de": "de", "pages.es": "es", "pages.fr": "fr", "pages.ru": "ru", "pages.zh": "zh"}
FAMILIES = {"en": "tldr-en", "ru": "tldr-ru", "zh": "tldr-zh"}  # the others are one

_USE = re.compile(r"^- (.*?):?\n\n`(.*?)`$", re.MULTILINE)


def read_wikiqa(folder: Path) -> Iterator[LabelledSet]:
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
    questions = tuple(LabelledQuestion(text, tuple(found)) for text, found in answers.items() if found)
    yield LabelledSet("wikiqa", "wikiqa", tuple(Item("", text=text) for text in places), questions)


def read_selqa(folder: Path) -> Iterator[LabelledSet]:
    """Questions that were written for single sentences of Wikipedia."""
    places: dict[str, int] = {}
    questions = []
    for row in json.loads((folder / "selqa-ass-dev.json").read_text()):
        said = [places.setdefault(text, len(places)) if text.strip() else -1 for text in row["candidates"]]
        answers = tuple(said[place] for place in row["answers"] if said[place] >= 0)
        questions.append(LabelledQuestion(row["question"], answers))
    random.Random("selqa").shuffle(questions)
    yield LabelledSet("selqa", "selqa", tuple(Item("", text=text) for text in places), tuple(questions))


def read_pubmedqa(folder: Path) -> Iterator[LabelledSet]:
    """Titles of papers that ask something, and what their abstracts answer."""
    papers = [*json.loads((folder / "ori_pqal.json").read_text()).values()][:PARAGRAPHS]
    items = tuple(Item("", text=" ".join(paper["CONTEXTS"])) for paper in papers)
    questions = tuple(LabelledQuestion(paper["QUESTION"], (place,)) for place, paper in enumerate(papers))
    yield LabelledSet("pubmedqa", "pubmedqa", items, questions)


def read_cmrc(folder: Path) -> Iterator[LabelledSet]:
    """Questions and paragraphs in simplified Chinese."""
    yield _read_paragraphs("cmrc", folder / "cmrc2018_trial.json")


def read_drcd(folder: Path) -> Iterator[LabelledSet]:
    """Questions and paragraphs in traditional Chinese."""
    yield _read_paragraphs("drcd", folder / "DRCD_dev.json")


def read_tldr(folder: Path) -> Iterator[LabelledSet]:
    """Pages about commands in several languages; the longest of the uses they name is the question and left out."""
    for name, language in LANGUAGES.items():
        shortest = 10 if language == "zh" else 30
        paths = sorted((folder / name).glob("*/*.md"))
        random.Random(language).shuffle(paths)
        found = [page for path in paths if (page := _read_page(path, shortest))][:PAGES]
        items = tuple(item for item, _ in found)
        questions = tuple(LabelledQuestion(use, (place,)) for place, (_, use) in enumerate(found))
        yield LabelledSet(f"tldr-{language}", FAMILIES.get(language, "tldr-latin"), items, questions)


def _read_paragraphs(name: str, path: Path) -> LabelledSet:
    paragraphs = [one for article in json.loads(path.read_text())["data"] for one in article["paragraphs"]]
    random.Random(name).shuffle(paragraphs)
    kept = paragraphs[:PARAGRAPHS]
    asked = [LabelledQuestion(qa["question"], (place,)) for place, one in enumerate(kept) for qa in one["qas"]]
    random.Random(name).shuffle(asked)
    return LabelledSet(name, name, tuple(Item("", text=one["context"]) for one in kept), tuple(asked))


def _read_page(path: Path, shortest: int) -> tuple[Item, str] | None:
    text = path.read_text()
    about = [line[2:] for line in text.splitlines() if line.startswith("> ") and "<http" not in line]
    uses = [(re.sub(r"[`\[\]]", "", use), command) for use, command in _USE.findall(text)]
    if len(uses) < 4 or not about:
        return None
    asked = max(uses, key=lambda use: len(use[0]))
    others = "\n".join(f"{use}: {command}" for use, command in uses if (use, command) != asked)
    return (Item(path.stem, " ".join(about), others), asked[0]) if len(asked[0]) >= shortest else None
