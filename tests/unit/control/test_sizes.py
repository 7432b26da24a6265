"""Contexts that are larger than the budgets of their agents."""

from collections.abc import Callable

from gateway.control.sizes import ContextSizes
from gateway.domain.snapshot import Snapshot

WORDS = "word " * 30
POLICIES = f"""
contexts:
  large:
    resources:
      a: {{type: text, data: {{content: "{WORDS}"}}}}
      b: {{type: text, data: {{content: "{WORDS}"}}}}
  offered: {{resources: {{a: {{type: text, mode: on_demand, data: {{content: "{WORDS * 9}"}}}}}}}}
  small: {{resources: {{a: {{type: text, data: {{content: "{WORDS}"}}}}}}}}
profiles: {{thrifty: {{budget: 40, contexts: [small]}}}}
agents:
  wide: {{contexts: [large, small], budget: 100}}
  tight: {{contexts: [large, offered], budget: 50}}
  heir: {{contexts: [small], profile: thrifty}}
  crowded: {{contexts: [large], profile: thrifty}}
  plain: {{contexts: [large]}}
"""


def test_only_what_is_always_placed_counts_against_the_first_budget_that_applies(
    policies: Callable[[str], Snapshot],
) -> None:
    sizes = ContextSizes(policies(POLICIES), lambda text: len(text.split()), 55)
    assert list(sizes.list_warnings()) == [
        "agent tight: its contexts always place 60 tokens (large 60, offered 0), its budget is 50",
        "agent crowded: its contexts always place 90 tokens (large 60, small 30), its budget is 40",
        "agent plain: its contexts always place 60 tokens (large 60), its budget is 55",
    ]
    assert list(sizes.list_warnings({"wide", "heir"})) == []
    assert sizes.find_users("contexts", "small") == {"wide", "heir", "crowded"}
    assert sizes.find_users("profiles", "thrifty") == {"heir", "crowded"}
    assert sizes.find_users("agents", "wide") == {"wide"}


def test_what_cannot_be_too_large_is_not_counted(policies: Callable[[str], Snapshot]) -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return 0

    assert list(ContextSizes(policies(POLICIES), count, 10_000).list_warnings({"plain"})) == []
    assert counted == []
