"""Tests that hold a figure against a limit: against a generous one always, against the real one on a quiet machine."""

import pytest


def with_limits(*, loaded: object, quiet: object) -> pytest.MarkDecorator:
    """The test gets `limits`: what any machine keeps, or with `-m timing` what is promised."""
    return pytest.mark.parametrize(
        "limits",
        [pytest.param(loaded, id="loaded machine"), pytest.param(quiet, id="quiet machine", marks=pytest.mark.timing)],
    )
