"""Ids that stand in their keys as they are: one rule for one and for many."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.response_keys import MAX_PLAIN_ID, PREFIX, get_key_start, is_plain, sort_ids

ids = st.one_of(st.text("aZ_-0 é", max_size=4), st.sampled_from(["x" * MAX_PLAIN_ID, "x" * (MAX_PLAIN_ID + 1), "\n"]))


def make_key(owner: ConversationOwner, identity: str) -> str:
    return get_key_start(owner).finish(identity, PREFIX)


@given(st.lists(ids, min_size=1, max_size=5))
def test_many_are_sorted_as_each_is(some: list[str]) -> None:
    plain, odd = [one for one in some if is_plain(one)], [one for one in some if not is_plain(one)]
    assert (sort_ids(some).plain, list(sort_ids(some).odd)) == (" ".join(plain), odd)


@pytest.mark.parametrize("identity", ["resp_1", "0aF", "a-b", "x" * MAX_PLAIN_ID])
def test_ordinary_ids_are_plain(identity: str) -> None:
    assert is_plain(identity)
    assert make_key(ConversationOwner("w", "k"), identity).endswith(f":{identity}")


@pytest.mark.parametrize("identity", ["", "a b", "a:b", "a/b", "é", "ª", "a\n", "x" * (MAX_PLAIN_ID + 1)])
def test_others_are_hashed(identity: str) -> None:
    assert not is_plain(identity)
    assert not identity or not make_key(ConversationOwner("w", "k"), identity).endswith(identity)


def test_no_owner_has_the_keys_of_another() -> None:
    owners = [ConversationOwner(*whose) for whose in (("w", "k"), ("w", "k", "u"), ("w", "ku"), ("wk", ""), ("", "wk"))]
    keys = {make_key(owner, identity) for owner in owners for identity in ("r", "é", "", "w:r")}
    assert len(keys) == len(owners) * 4
