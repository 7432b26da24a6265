import contextlib
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import Faults
from gateway.strict_yaml import MAX_BYTES, load_yaml, parse_yaml


def faults_of(text: str | bytes) -> list[str]:
    with pytest.raises(Faults) as caught:
        parse_yaml(text, "f.yaml")
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("no", "no"),
        ("Yes", "Yes"),
        ("on", "on"),
        ("off", "off"),
        ("2024-01-31", "2024-01-31"),
        ("12:30:00", "12:30:00"),
        ("007", "007"),
        ("1_000", "1_000"),
        (".inf", ".inf"),
        ("1.5e999", "1.5e999"),
        ("9" * 30, "9" * 30),
        ("'5'", "5"),
        ('"true"', "true"),
        ("true", True),
        ("false", False),
        ("42", 42),
        ("-7", -7),
        ("0.25", 0.25),
        ("1.5e3", 1500.0),
        ("null", None),
        ("~", None),
        ("", None),
    ],
)
def test_only_numbers_true_false_and_null_are_not_strings(written: str, meant: object) -> None:
    value = parse_yaml(f"key: {written}", "f.yaml").data["key"]
    assert (value, type(value)) == (meant, type(meant))


def test_every_value_knows_its_line() -> None:
    document = parse_yaml("a:\n  b:\n    - x\n    - {c: 1,\n       d: 2}\n", "f.yaml")
    lines = [document.line(keys) for keys in [("a",), ("a", "b"), ("a", "b", 0), ("a", "b", 1), ("a", "b", 1, "d")]]
    assert lines == [1, 2, 3, 4, 5]


def test_what_is_not_written_has_the_line_of_what_stands_around_it() -> None:
    document = parse_yaml("x: 1\na:\n  b: 1\n", "f.yaml")
    assert document.line(("a", "missing", 3)) == 2
    assert str(document.fault(("a", "missing"), "is required")) == "f.yaml:2: a.missing: is required"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: 1\nb: &x 2", "f.yaml:2: b: anchors are not allowed: &x"),
        ("a:\n  b: *x", "f.yaml:2: a.b: aliases are not allowed: write out *x"),
        ("a:\n  <<: {b: 1}", "f.yaml:2: a: merge keys are not allowed: write the keys out"),
        ("a: !!python/name:os.system x", "f.yaml:1: a: tags are not allowed: tag:yaml.org,2002:python/name:os.system"),
        ("a: [1, !!str 2]", "f.yaml:1: a.1: tags are not allowed: tag:yaml.org,2002:str"),
        ("a:\n  b: 1\n  c: 2\n  b: 3", "f.yaml:4: a.b: is given twice, first in line 2"),
        ("1: x", "f.yaml:1: (file): keys must be strings: put '1' in quotes"),
        ("true: x", "f.yaml:1: (file): keys must be strings: put 'true' in quotes"),
        ("? [a]\n: 1", "f.yaml:1: (file): keys must be strings, not lists or mappings"),
        ("*a : 1", "f.yaml:1: (file): aliases are not allowed: write out *a"),
        ("a: 1\n---\nb: 2", "f.yaml:2: (file): contains more than one document; use one file for each"),
        ("a: 'x", "f.yaml:1: a: found unexpected end of stream"),
        ("a:\n\tb: 1", "f.yaml:2: a: found character that cannot start any token"),
        (b"a: 1\nb: \xff", "f.yaml:2: (file): is not valid UTF-8"),
        ('a: "\\ud800"', "f.yaml:1: a: found invalid Unicode character escape code"),
    ],
)
def test_surprises_are_faults(text: str | bytes, fault: str) -> None:
    assert faults_of(text) == [fault]


def test_control_characters_are_a_fault() -> None:
    assert "does not allow" in faults_of("a: \x01")[0]


def test_all_faults_of_a_file_come_at_once() -> None:
    assert len(faults_of("a: &x 1\nb: *x\na: 2\n3: 4\n")) == 4


def test_depth_is_bounded_before_it_costs_anything() -> None:
    started = time.process_time()
    assert "nested deeper than 64 levels" in faults_of("[" * 100_000)[0]
    assert "nested deeper than 64 levels" in faults_of("- " * 100_000)[0]
    assert time.process_time() - started < 2


def test_a_large_file_is_refused_unparsed(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(Faults, match="larger than"):
        load_yaml(path)


def test_a_byte_order_mark_is_tolerated_and_an_empty_file_is_null() -> None:
    assert parse_yaml(b"\xef\xbb\xbfa: 1", "f.yaml").data == {"a": 1}
    assert parse_yaml("# nothing\n", "f.yaml").data is None


def test_what_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(Faults, match="cannot be read: No such file"):
        load_yaml(tmp_path / "missing.yaml")
    with pytest.raises(Faults, match="not a regular file"):
        load_yaml(tmp_path)


@given(st.text(alphabet="ab:-[]{}&*!<>'\"#|? \n\t1%", max_size=40))
def test_any_text_gives_data_or_faults(text: str) -> None:
    with contextlib.suppress(Faults):
        parse_yaml(text, "f.yaml")
