"""What the sets that the calibration is trained on are made of."""

import json
from pathlib import Path

import pytest

from scripts.calibration_training.prose import read_selqa, read_tldr
from scripts.calibration_training.sources import read_all, read_hwu

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


def test_the_question_of_a_page_is_not_part_of_its_text(tmp_path: Path) -> None:
    (tmp_path / "pages" / "common").mkdir(parents=True)
    (tmp_path / "pages" / "common" / "tar.md").write_text(PAGE)
    english = next(iter(read_tldr(tmp_path)))
    (item,), (question,) = english.items, english.questions
    assert question.text == "Extract an archive into a directory that is named by its path"
    assert (item.name, item.description) == ("tar", "Archiving tool.")
    assert "List the contents" in item.text
    assert "Extract" not in item.text


def test_sentences_that_several_questions_share_are_one_resource(tmp_path: Path) -> None:
    rows = [
        {"question": "Who?", "candidates": ["It was Ada.", "", "It rained."], "answers": [0]},
        {"question": "What weather?", "candidates": ["It snowed.", "It rained."], "answers": [1]},
    ]
    (tmp_path / "selqa-ass-dev.json").write_text(json.dumps(rows))
    (labelled,) = read_selqa(tmp_path)
    texts = [item.text for item in labelled.items]
    answers = {question.text: [texts[place] for place in question.relevant] for question in labelled.questions}
    assert sorted(texts) == ["It rained.", "It snowed.", "It was Ada."]
    assert answers == {"Who?": ["It was Ada."], "What weather?": ["It rained."]}


def test_intents_with_too_few_questions_are_left_out(tmp_path: Path) -> None:
    for part in ("trainset", "testset"):
        for intent, count in (("alarm_set", 12), ("joke", 3)):
            rows = [f'{n};s;i;"a";"b";"{part} {intent} {n}"' for n in range(count)]
            (tmp_path / part).mkdir(exist_ok=True)
            (tmp_path / part / f"{intent}.csv").write_text("\n".join(["answerid;…", *rows]))
    (labelled,) = read_hwu(tmp_path)
    assert [item.name for item in labelled.items] == ["alarm set"]
    assert len(labelled.questions) == 12
    assert all(example.startswith("trainset") for example in labelled.items[0].examples)


def test_a_source_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="banking77"):
        read_all(tmp_path)
