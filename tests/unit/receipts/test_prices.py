import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.price import ModelPrice, TokenCount
from gateway.receipts.prices import PriceTable, count_one_by_one, count_tokens
from gateway.upstreams.litellm.library import find_listed_price

CHEAP, DEAR = ModelPrice(1, 2), ModelPrice(10, 20, 5)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-4o", DEAR),
        ("gpt-4o-mini", CHEAP),
        ("gpt-4", None),
        ("gpt-4o-large-2", DEAR),
        ("", None),
        ("*", None),
    ],
)
def test_an_exact_name_wins_then_the_longest_beginning(model: str, expected: ModelPrice | None) -> None:
    table = PriceTable({"gpt-4o-*": CHEAP, "gpt-4o-large*": DEAR, "gpt-4o": DEAR})
    assert table.find(model) == expected


def test_other_models_are_looked_up_elsewhere() -> None:
    assert PriceTable({"a": CHEAP}, lambda model: DEAR).find("b") == DEAR


def test_cached_tokens_have_their_own_price() -> None:
    tokens = TokenCount(prompt=1000, cached=400, completion=100)
    assert DEAR.compute_cost(tokens) == pytest.approx((600 * 10 + 400 * 5 + 100 * 20) / 1e6)
    assert CHEAP.compute_cost(tokens) == pytest.approx((1000 * 1 + 100 * 2) / 1e6)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, TokenCount()),
        ({"prompt_tokens": 10, "completion_tokens": 2}, TokenCount(10, 0, 2)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 4}}, TokenCount(10, 4, 0)),
        ({"prompt_tokens": 10, "cache_read_input_tokens": 40}, TokenCount(10, 10, 0)),
        ({"prompt_tokens": "10", "completion_tokens": -5, "prompt_tokens_details": []}, TokenCount()),
        ({"prompt_tokens": True, "completion_tokens": 1.5}, TokenCount()),
        ({"prompt_tokens": 10**400, "completion_tokens": 2, "total_tokens": 1}, TokenCount(0, 0, 2)),
        ({"prompt_tokens": 1, "completion_tokens": 10**400, "total_tokens": 1}, TokenCount(1, 0, 0)),
        ({"input_tokens": 10**400, "output_tokens": 2}, TokenCount(0, 0, 2)),
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
            TokenCount(9, 4, 2),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"audio_tokens": 4}},
            TokenCount(9, 0, 2),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "input_tokens_details": {"cached_tokens": 4}},
            TokenCount(9, 4, 2),
        ),
        ({"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 40}}, TokenCount(9, 9, 2)),
        ({"input_tokens": 9, "output_tokens": 2, "cache_read_input_tokens": 4}, TokenCount(13, 4, 2)),
        ({"input_tokens": 9, "output_tokens": 2, "cache_creation_input_tokens": 4}, TokenCount(13, 0, 2)),
        ({"input_tokens": 9, "output_tokens": 2, "completion_tokens": 3}, TokenCount(9, 0, 3)),
        ({"prompt_tokens": 1, "completion_tokens": 2, "\ud800": 3}, TokenCount(1, 0, 2)),
    ],
)
def test_usage_is_read_in_any_provider_s_words(usage: Any, expected: TokenCount) -> None:
    assert count_tokens(usage) == expected


NAMES = [
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "input_tokens",
    "output_tokens",
    "prompt_tokens_details",
    "input_tokens_details",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
]
COUNTS = st.sampled_from([0, 1, 7, 100, 2**53])
ODD_COUNTS: st.SearchStrategy[Any] = st.sampled_from(
    [None, -1, True, False, 2**53 + 1, 10**400, 1.0, float("inf"), "3", "\ud800", [], {}, [1]]
)
DETAILS = st.dictionaries(st.sampled_from(["cached_tokens", "audio_tokens"]), COUNTS | ODD_COUNTS)


@given(st.dictionaries(st.sampled_from(NAMES), COUNTS | DETAILS | ODD_COUNTS))
def test_what_is_read_at_once_is_what_its_counts_say_one_by_one(usage: dict[str, Any]) -> None:
    assert count_tokens(usage) == count_one_by_one(usage)


def test_litellm_s_table_is_used_only_if_litellm_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "litellm", raising=False)
    assert find_listed_price("gpt-4o") is None
    assert "litellm" not in sys.modules
    listed = {
        "gpt-4o": {"input_cost_per_token": 2.5e-6, "output_cost_per_token": 1e-5, "cache_read_input_token_cost": 1e-6},
        "free": {"input_cost_per_token": 0, "output_cost_per_token": 0},
        "odd": {"input_cost_per_token": "much"},
    }
    monkeypatch.setitem(sys.modules, "litellm", SimpleNamespace(model_cost=listed))
    assert (found := find_listed_price("gpt-4o")) is not None
    assert (found.input, found.output, found.cached_input) == pytest.approx((2.5, 10, 1))
    assert find_listed_price("free") == ModelPrice(0, 0)
    assert find_listed_price("odd") is None
    assert find_listed_price("unknown") is None
