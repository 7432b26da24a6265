"""Leads what schemathesis makes up to objects that exist, so that more than refusals is seen."""

from random import Random
from typing import Any

import orjson
from schemathesis import Case
from schemathesis.core import NOT_SET
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import CoveragePhaseData

from tests.support.api_samples import SAMPLES, Sample, fill_places
from tests.support.workspaces import OURS

BY_OPERATION = {(sample.method, sample.path.replace(":path", "")): sample for sample in SAMPLES}
HUGE = 2**63


def make_dice(case: Case[Any]) -> Random:
    """The same for the same case, so that a failure can be repeated."""
    return Random(repr((case.method, case.path, case.path_parameters, case.query, case.headers, case.body)))


def steer(case: Case[Any], often: float, *, tamper: float = 0.5) -> None:
    """Put in good values in place of good ones that were made up; bad ones stay as they are.

    Every so often, as `tamper` says, one field of a body is left as it was made up.
    """
    sample = BY_OPERATION[case.operation.method.upper(), case.operation.path]
    dice = make_dice(case)
    if case.path_parameters and not _bad_at(case, ParameterLocation.PATH) and dice.random() < often:
        values = sample.named(OURS, by_id=dice.random() < 0.3)
        case.path_parameters = {name: values[name] for name in case.path_parameters}
    if not _bad_at(case, ParameterLocation.HEADER) and dice.random() < often:
        case.headers.pop("If-Match", None)
    if sample.query and not _bad_at(case, ParameterLocation.QUERY) and dice.random() < often:
        case.query = dict(pair.split("=") for pair in fill_places(sample.query, OURS).split("&"))
    if case.body is not NOT_SET and not is_negative(case) and dice.random() < often:
        _steer_body(case, sample, dice, tamper)


def _steer_body(case: Case[Any], sample: Sample, dice: Random, tamper: float) -> None:
    """The good body; or that with one field as it was made up."""
    case.media_type = sample.media
    if sample.media != "application/json":
        case.body = sample.payload(OURS)
        return
    good = orjson.loads(sample.payload(OURS) or b"null")
    if isinstance(good, dict) and isinstance(case.body, dict) and case.body and dice.random() < tamper:
        field = dice.choice(sorted(case.body))
        good[field] = case.body[field]
    case.body = good


def is_negative(case: Case[Any]) -> bool:
    """Whether something about it is meant to be refused."""
    return case.meta is not None and case.meta.generation.mode.is_negative


def _bad_at(case: Case[Any], location: ParameterLocation) -> bool:
    assert case.meta is not None
    told = case.meta.phase.data
    tried = told.parameter_location if isinstance(told, CoveragePhaseData) else None
    return case.meta.is_negative_at(location) or (tried is location and is_negative(case))


def may_be_refused(case: Case[Any]) -> bool:
    """Whether a case that fits its schema may be a bad request: a chat request inside, or a number beyond 64 bits."""
    return case.operation.path.endswith(("/resolve", "/diff", "/replay")) or _holds_huge_number(case.body)


def _holds_huge_number(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_holds_huge_number, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int | float) and abs(value) >= HUGE
