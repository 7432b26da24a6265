import pytest

from gateway.interpolation import interpolate, interpolate_document
from gateway.strict_yaml import parse_yaml


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("${NAME}", "value"),
        ("a ${NAME} b ${NAME}", "a value b value"),
        ("${NAME:-other}", "value"),
        ("${EMPTY:-other}", "other"),
        ("${EMPTY}", ""),
        ("${UNSET:-}", ""),
        ("${UNSET:-http://x:1/$y}", "http://x:1/$y"),
        ("$${NAME}", "${NAME}"),
        ("$NAME $ {NAME}", "$NAME $ {NAME}"),
        ("${NESTED}", "${NAME}"),
    ],
)
def test_names_become_values_in_one_pass(text: str, meant: str) -> None:
    assert interpolate(text, {"NAME": "value", "EMPTY": "", "NESTED": "${NAME}"}) == meant


@pytest.mark.parametrize("text", ["${UNSET}", "${NAME-x}", "${", "${}", "${1A}"])
def test_a_name_without_a_value_or_a_malformed_one_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\$\{"):
        interpolate(text, {"NAME": "value"})


def test_keys_are_left_alone_and_each_fault_has_its_place() -> None:
    document = parse_yaml("a:\n  ${X}: 1\n  b: ['${X}', '${Y}']\n  c: ${Z}\n", "c.yaml")
    data, faults = interpolate_document(document, {"X": "x"})
    assert data["a"]["${X}"] == 1
    assert data["a"]["b"][0] == "x"
    assert [(fault.line, fault.path) for fault in faults] == [(3, "a.b.1"), (4, "a.c")]
