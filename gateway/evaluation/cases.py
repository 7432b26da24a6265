"""The file of cases: questions, and what semantic search should inject for each."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gateway.domain.resource import Mode
from gateway.domain.snapshot import Snapshot
from gateway.errors import Fault, Faults, GatewayError
from gateway.strict_yaml import Keys, YamlDocument, load_yaml
from gateway.validation import format_suggestion, validate

HEADERS = ("agent", "profile", "prompt", "content", "language", "user")  # sent as headers of the same names

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Share = Annotated[float, Field(ge=0, le=1)]


class StrictShape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CaseShape(StrictShape):
    question: Text
    expect: list[Text]  # ids of semantic resources; empty: nothing should be injected
    agent: Text | None = None
    profile: Text | None = None
    prompt: Text | None = None
    content: Text | None = None
    language: Text | None = None
    user: Text | None = None
    earlier: list[Text] = []  # what the user said before, oldest first

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """What the request says about itself: names after x-context-, and values."""
        values: list[tuple[str, Any]] = [(name, getattr(self, name)) for name in HEADERS]
        return tuple((name, value) for name, value in values if value is not None)

    def build_case(self, line: int = 0) -> "Case":
        return Case(self.question, frozenset(self.expect), self.headers, tuple(self.earlier), line)


class Targets(StrictShape):
    """What the figures have to reach; None: anything will do."""

    precision: Share | None = None
    recall: Share | None = None
    false_injections: Share | None = None

    def override(self, broader: "Targets") -> "Targets":
        """These targets where they say something, else the broader ones."""
        return broader.model_copy(update=self.model_dump(exclude_none=True))


class CaseFileShape(StrictShape):
    cases: Annotated[list[CaseShape], Field(min_length=1)]
    targets: Targets = Targets()


class Case(msgspec.Struct, frozen=True):
    """One question as a client would ask it, and the resources that it should get."""

    question: str
    expect: frozenset[str] = frozenset()
    headers: tuple[tuple[str, str], ...] = ()  # names after x-context-, and values
    earlier: tuple[str, ...] = ()  # oldest first
    line: int = 0


class CaseFile(msgspec.Struct, frozen=True):
    """Cases that fit the policies, and the targets to reach with them."""

    document: YamlDocument
    cases: tuple[Case, ...]
    targets: Targets

    def build_fault(self, number: int, error: GatewayError) -> Fault:
        """The fault of a case that the gateway rejects."""
        key = (error.param or "").removeprefix("x-context-")
        here: Keys = ("cases", number)
        return self.document.fault((*here, key) if key in HEADERS else here, error.message)


def load_cases(path: Path, snapshot: Snapshot) -> CaseFile:
    """Read the cases of a file; raises Faults with everything that is wrong in it."""
    return read_cases(load_yaml(path), snapshot)


def read_cases(document: YamlDocument, snapshot: Snapshot) -> CaseFile:
    """The cases of a document; raises Faults."""
    shape, faults = validate(CaseFileShape, document.data, document, ())
    if shape is None:
        raise Faults(sorted(faults, key=lambda fault: fault.line))
    faults = [
        document.fault(("cases", number, "expect", place), message)
        for number, case in enumerate(shape.cases)
        for place, message in _check_expected(case.expect, snapshot)
    ]
    if faults:
        raise Faults(faults)
    return CaseFile(document, tuple(_build_cases(shape.cases, document)), shape.targets)


def _build_cases(shapes: Iterable[CaseShape], document: YamlDocument) -> Iterator[Case]:
    for number, shape in enumerate(shapes):
        yield shape.build_case(document.line(("cases", number)))


def _check_expected(expected: Iterable[str], snapshot: Snapshot) -> Iterator[tuple[int, str]]:
    """The ids that no search can find, by their place in the list."""
    findable = [name for name, resource in snapshot.resources.items() if resource.mode is Mode.SEMANTIC]
    for place, name in enumerate(expected):
        resource = snapshot.resources.get(name)
        if resource is None:
            yield place, f"there is no resource {name!r}{format_suggestion(name, findable)}"
        elif resource.mode is not Mode.SEMANTIC:
            yield place, f"{name!r} has mode {resource.mode}; only semantic resources depend on the question"
