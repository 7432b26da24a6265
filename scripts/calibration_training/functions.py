"""The documented functions of the running Python's standard library."""

import ast
import random
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from scripts.calibration_training.labelled import Item, LabelledQuestion, LabelledSet


def read_functions(_: Path) -> Iterator[LabelledSet]:
    """The first sentence of a docstring as question, the function without it as resource."""
    found = sorted(_find_documented(Path(sysconfig.get_paths()["stdlib"])))
    random.Random("functions").shuffle(found)
    items = tuple(Item(name, text=code) for _, name, code in found[:1400])
    questions = tuple(LabelledQuestion(sentence, (place,)) for place, (sentence, _, _) in enumerate(found[:1400]))
    yield LabelledSet("functions", "functions", items, questions)


def _find_documented(root: Path) -> Iterator[tuple[str, str, str]]:
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
