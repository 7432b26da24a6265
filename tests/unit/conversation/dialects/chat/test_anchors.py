"""Blocks that stay with their user messages."""

from itertools import pairwise

import msgspec
import pytest
from msgspec import Raw

from gateway.conversation.dialects.chat.placement import place, place_anchored
from gateway.domain.agent import Placement
from gateway.domain.injection import AnchoredBlock, PlacedTexts
from gateway.domain.json_text import escape_json


def encode(*pairs: tuple[str, str]) -> list[Raw]:
    return [Raw(msgspec.json.encode({"role": role, "content": text})) for role, text in pairs]


def decode(messages: list[Raw]) -> list[tuple[str, str]]:
    found = []
    for message in messages:
        read = msgspec.json.decode(message)
        content = read["content"]
        texts = content if isinstance(content, str) else " | ".join(part["text"] for part in content)
        found.append((read["role"], texts))
    return found


def put(messages: list[Raw], placement: Placement, volatile: str, **blocks: str) -> list[tuple[str, str]]:
    anchored = tuple(AnchoredBlock(int(key[1:]), text, escape_json(text)) for key, text in blocks.items())
    texts = PlacedTexts(b"", b"rules", escape_json(volatile), anchored)
    return decode(place_anchored(place(messages, texts, placement), texts, placement))


TALK = [("user", "one"), ("assistant", "yes"), ("user", "two"), ("assistant", "no"), ("user", "three")]


@pytest.mark.parametrize("placement", [Placement.TURN, Placement.TURN_USER])
@pytest.mark.parametrize("system", [[], [("developer", "Be brief.")]])
def test_a_request_begins_with_the_one_before(placement: Placement, system: list[tuple[str, str]]) -> None:
    blocks = {"_0": "A", "_1": "B", "_2": "C"}
    sent = []
    for end in (1, 3, 5):
        known = {key: text for key, text in blocks.items() if int(key[1:]) < (end + 1) // 2}
        sent.append(put(encode(*system, *TALK[:end]), placement, "", **known))
    for before, after in pairwise(sent):
        assert after[: len(before)] == before


def test_what_is_gone_next_time_comes_after_what_stays() -> None:
    messages = encode(("system", "s"), *TALK[:3])
    role = ("system", "s\n\nrules")
    turn = put(messages, Placement.TURN, "moving", _0="A", _1="B")
    assert turn == [role, ("system", "A"), *TALK[:2], ("system", "B"), ("system", "moving"), TALK[2]]
    user = put(messages, Placement.TURN_USER, "moving", _0="A", _1="B")
    assert user == [role, ("user", "A | one"), TALK[1], ("user", "B | moving | two")]


def test_an_anchored_block_is_never_taken_for_the_clients_system_message() -> None:
    placed = put(encode(*TALK[:3]), Placement.TURN, "", _0="A")
    assert placed == [("system", "rules"), ("system", "A"), *TALK[:3]]
