"""What the sets that the calibration is trained on are made of."""

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
PAGE = """# tar

> Archiving tool.
> More information: <https://example.org>.

- Create an archive:

`tar cf {{target.tar}}`

- Extract an archive into a directory that is named by its path:

`tar xf {{source.tar}}`

- List the contents:

`tar tf {{source.tar}}`

- Add a file:

`tar rf {{target.tar}}`
"""


@pytest.fixture
def prose(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("calibration.prose")


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("calibration.sources")


def test_the_question_of_a_page_is_not_part_of_its_text(prose: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "pages" / "common").mkdir(parents=True)
    (tmp_path / "pages" / "common" / "tar.md").write_text(PAGE)
    english = next(iter(prose.tldr(tmp_path)))
    (item,), (question,) = english.items, english.questions
    assert question.text == "Extract an archive into a directory that is named by its path"
    assert (item.name, item.description) == ("tar", "Archiving tool.")
    assert "List the contents" in item.text
    assert "Extract" not in item.text


def test_sentences_that_several_questions_share_are_one_resource(prose: ModuleType, tmp_path: Path) -> None:
    rows = [
        {"question": "Who?", "candidates": ["It was Ada.", "", "It rained."], "answers": [0]},
        {"question": "What weather?", "candidates": ["It snowed.", "It rained."], "answers": [1]},
    ]
    (tmp_path / "selqa-ass-dev.json").write_text(json.dumps(rows))
    (labelled,) = prose.selqa(tmp_path)
    texts = [item.text for item in labelled.items]
    answers = {question.text: [texts[place] for place in question.relevant] for question in labelled.questions}
    assert sorted(texts) == ["It rained.", "It snowed.", "It was Ada."]
    assert answers == {"Who?": ["It was Ada."], "What weather?": ["It rained."]}


def test_intents_with_too_few_questions_are_left_out(sources: ModuleType, tmp_path: Path) -> None:
    for part in ("trainset", "testset"):
        for intent, count in (("alarm_set", 12), ("joke", 3)):
            rows = [f'{n};s;i;"a";"b";"{part} {intent} {n}"' for n in range(count)]
            (tmp_path / part).mkdir(exist_ok=True)
            (tmp_path / part / f"{intent}.csv").write_text("\n".join(["answerid;…", *rows]))
    (labelled,) = sources.hwu(tmp_path)
    assert [item.name for item in labelled.items] == ["alarm set"]
    assert len(labelled.questions) == 12
    assert all(example.startswith("trainset") for example in labelled.items[0].examples)


def test_a_source_that_is_missing_is_named(sources: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="banking77"):
        sources.read_all(tmp_path)
