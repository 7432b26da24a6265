"""The file of cases: read strictly, every fault told with its place."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.domain.snapshot import Snapshot
from gateway.errors import Faults
from gateway.evaluation.cases import Case, CaseFile, Targets, load_cases

POLICIES = """
contexts:
  legal:
    resources:
      privacy: {type: text, mode: semantic, data: {content: Consent.}}
      claims: {type: text, data: {content: No claims.}}
"""


@pytest.fixture
def read(tmp_path: Path, policies: Callable[[str], Snapshot]) -> Callable[[str], CaseFile]:
    snapshot = policies(POLICIES)

    def read(text: str) -> CaseFile:
        (tmp_path / "cases.txt").write_text(text)
        return load_cases(tmp_path / "cases.txt", snapshot)

    return read


def faults(read: Callable[[str], CaseFile], text: str) -> list[str]:
    with pytest.raises(Faults) as caught:
        read(text)
    return [f"{fault.line}: {fault.path}: {fault.message}" for fault in caught.value.faults]


def test_a_case_carries_what_a_client_would_say(read: Callable[[str], CaseFile]) -> None:
    file = read(
        "cases:\n  - {question: Q?, expect: [legal/privacy], agent: a, user: u, earlier: [first, second]}\n"
        "targets: {recall: 0.5}\n"
    )
    said = (("agent", "a"), ("user", "u"))
    assert file.cases == (Case("Q?", frozenset({"legal/privacy"}), said, ("first", "second"), 2),)
    assert file.targets == Targets(recall=0.5)


def test_every_fault_is_told_with_its_line_and_path(read: Callable[[str], CaseFile]) -> None:
    text = "cases:\n  - {question: Q?}\n  - {question: '', expect: []}\n  - {question: Q?, expect: [], agnt: x}\n"
    assert faults(read, text) == [
        "2: cases.0.expect: is required",
        "3: cases.1.question: string should have at least 1 character",
        "4: cases.2.agnt: is not a known key; did you mean 'agent'?",
    ]


def test_what_no_search_could_find_is_a_fault(read: Callable[[str], CaseFile]) -> None:
    text = "cases:\n  - question: Q?\n    expect:\n      - legal/privcy\n      - legal/claims\n"
    assert faults(read, text) == [
        "4: cases.0.expect.0: there is no resource 'legal/privcy'; did you mean 'legal/privacy'?",
        "5: cases.0.expect.1: 'legal/claims' has mode always; only semantic resources depend on the question",
    ]


def test_a_file_without_cases_is_a_fault(read: Callable[[str], CaseFile]) -> None:
    assert faults(read, "cases: []")[0].startswith("1: cases: list should have at least 1 item")


def test_targets_are_shares(read: Callable[[str], CaseFile]) -> None:
    (fault,) = faults(read, "cases: [{question: Q?, expect: []}]\ntargets: {precision: 85}")
    assert fault.startswith("2: targets.precision: ")


def test_targets_of_the_command_line_win_one_by_one() -> None:
    said = Targets(recall=0.9).override(Targets(recall=0.5, precision=0.8))
    assert said == Targets(recall=0.9, precision=0.8)
