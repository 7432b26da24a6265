"""Catalogues of texts: every text of the code has a translation, and no translation is left over."""

import json
import re
from pathlib import Path

import pytest

CONSOLE = Path(__file__).parents[2] / "gateway" / "console"
CALL = re.compile(r'\bt\(\s*("(?:[^"\\]|\\.)*")')
ENTRY = re.compile(r'^  ("(?:[^"\\]|\\.)*"): ("(?:[^"\\]|\\.)*"),$', re.MULTILINE)
PLACE = re.compile(r"\{\w+\}")


def find_texts() -> set[str]:
    files = [path for path in CONSOLE.rglob("*.js") if path.parent.name not in ("vendor", "i18n")]
    return {json.loads(text) for path in files for text in CALL.findall(path.read_text())}


def read_catalogue(path: Path) -> dict[str, str]:
    return {json.loads(text): json.loads(said) for text, said in ENTRY.findall(path.read_text())}


@pytest.mark.parametrize("path", sorted((CONSOLE / "i18n").glob("*.js")), ids=lambda path: path.stem)
def test_the_catalogue_has_every_text_and_no_other(path):
    catalogue = read_catalogue(path)
    assert sorted(find_texts() ^ set(catalogue)) == []
    for text, said in catalogue.items():
        assert set(PLACE.findall(said)) == set(PLACE.findall(text)), text
        assert said.count("|") == text.count("|"), text


def test_texts_are_written_where_they_are_used():
    """A text that is put together at run time could not be translated."""
    made = re.compile(r"[^\w.]t\((?!\s*\")")
    files = [
        path for path in CONSOLE.rglob("*.js") if path.parent.name not in ("vendor", "i18n") and path.stem != "i18n"
    ]
    assert [path.name for path in files if made.search(path.read_text())] == []
