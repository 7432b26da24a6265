"""Where texts go, message by message (CONTRACT §3.2)."""

from typing import Any

import msgspec
import orjson
import pytest
from msgspec import Raw

from gateway.conversation.dialects.chat.placement import place, place_anchored
from gateway.conversation.dialects.chat.request import read_user_texts
from gateway.domain.agent import Placement
from gateway.domain.injection import AnchoredBlock, PlacedTexts
from gateway.domain.json_text import escape_json
from gateway.errors import InvalidRequest

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Hi"}


def placed(
    *messages: dict[str, Any],
    instructions: str = "",
    stable: str = "STABLE",
    volatile: str = "",
    placement: Placement = Placement.SYSTEM,
) -> list[dict[str, Any]]:
    raw = [Raw(orjson.dumps(message)) for message in messages]
    texts = PlacedTexts(escape_json(instructions), escape_json(stable), escape_json(volatile))
    return [msgspec.json.decode(message) for message in place(raw, texts, placement)]


def test_instructions_client_text_stable_and_volatile_block_are_joined_by_blank_lines() -> None:
    first, second = placed(SYSTEM, USER, instructions="You edit.", volatile="VOLATILE")
    assert first == {"role": "system", "content": "You edit.\n\nBe brief.\n\nSTABLE\n\nVOLATILE"}
    assert second == USER


def test_without_a_system_message_one_is_inserted_first() -> None:
    assert placed(USER, instructions="You edit.") == [{"role": "system", "content": "You edit.\n\nSTABLE"}, USER]
    assert placed() == [{"role": "system", "content": "STABLE"}]


def test_of_several_leading_system_messages_the_last_is_taken() -> None:
    developer = {"role": "developer", "content": "And kind."}
    assert placed(SYSTEM, developer, USER) == [SYSTEM, {"role": "developer", "content": "And kind.\n\nSTABLE"}, USER]


def test_a_system_message_in_the_middle_is_not_a_leading_one() -> None:
    assert placed(USER, SYSTEM) == [{"role": "system", "content": "STABLE"}, USER, SYSTEM]


def test_a_developer_message_stays_one() -> None:
    assert placed({"role": "developer", "content": "x"}, USER)[0] == {"role": "developer", "content": "x\n\nSTABLE"}


def test_content_in_parts_gets_one_text_part_at_its_end() -> None:
    parts = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    first, _ = placed({"role": "system", "content": parts}, USER, volatile="VOLATILE")
    assert first["content"] == [*parts, {"type": "text", "text": "STABLE\n\nVOLATILE"}]


def test_instructions_stand_before_the_parts() -> None:
    parts = [{"type": "text", "text": "Be brief."}]
    first, _ = placed({"role": "system", "content": parts}, USER, instructions="You edit.")
    assert [part["text"] for part in first["content"]] == ["You edit.", "Be brief.", "STABLE"]


@pytest.mark.parametrize(
    "message", [{"role": "system", "content": None}, {"role": "system"}, {"role": "system", "content": ""}]
)
def test_a_system_message_that_says_nothing_gets_the_texts_alone(message: dict[str, Any]) -> None:
    assert placed(message, USER)[0] == {"role": "system", "content": "STABLE"}


def test_other_fields_of_the_message_stay() -> None:
    assert placed({"role": "system", "name": "boss", "content": "x"}, USER)[0]["name"] == "boss"


def test_the_clients_characters_keep_their_bytes() -> None:
    message = Raw(rb'{"content" : "caf\u00e9 \/ \ud83d\ude00", "role":"system"}')
    (first,) = place([message], PlacedTexts(stable=escape_json('é "quoted" \\ 😀')), Placement.SYSTEM)
    assert rb'"caf\u00e9 \/ \ud83d\ude00\n\n' in bytes(first)
    assert msgspec.json.decode(first)["content"] == 'café / 😀\n\né "quoted" \\ 😀'


@pytest.mark.parametrize("content", [5, {"text": "x"}, True])
def test_content_that_is_neither_text_nor_parts_is_refused(content: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        placed({"role": "system", "content": content}, USER)
    assert caught.value.param == "messages"


def test_a_role_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        placed({"role": 5, "content": "x"})


HISTORY = [SYSTEM, {"role": "user", "content": "One"}, {"role": "assistant", "content": "Two"}, USER]


def test_turn_puts_the_volatile_block_before_the_last_user_message() -> None:
    found = placed(*HISTORY, volatile="VOLATILE", placement=Placement.TURN)
    assert found == [
        {"role": "system", "content": "Be brief.\n\nSTABLE"},
        *HISTORY[1:3],
        {"role": "system", "content": "VOLATILE"},
        USER,
    ]


def test_turn_keeps_the_blocks_apart_in_the_first_turn_too() -> None:
    for before in ([], [SYSTEM]):
        found = placed(*before, USER, volatile="VOLATILE", placement=Placement.TURN)
        assert [message["role"] for message in found] == ["system", "system", "user"]
        assert found[0]["content"].endswith("STABLE")
        assert found[1]["content"] == "VOLATILE"


def test_turn_speaks_in_the_role_of_the_leading_message() -> None:
    found = placed({"role": "developer", "content": "x"}, USER, volatile="VOLATILE", placement=Placement.TURN)
    assert found[1] == {"role": "developer", "content": "VOLATILE"}


def test_turn_user_puts_it_as_a_text_part_at_the_head_of_the_last_user_message() -> None:
    found = placed(*HISTORY, volatile="VOLATILE", placement=Placement.TURN_USER)
    assert found[0] == {"role": "system", "content": "Be brief.\n\nSTABLE"}
    assert found[-1]["content"] == [{"type": "text", "text": "VOLATILE"}, {"type": "text", "text": "Hi"}]
    assert found[1:3] == HISTORY[1:3]


def test_turn_user_keeps_the_other_parts() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:x"}}
    (_, user) = placed({"role": "user", "content": [image]}, volatile="VOLATILE", placement=Placement.TURN_USER)
    assert user["content"] == [{"type": "text", "text": "VOLATILE"}, image]


@pytest.mark.parametrize("placement", [Placement.TURN, Placement.TURN_USER])
def test_without_a_user_message_everything_goes_into_the_system_message(placement: Placement) -> None:
    assert placed(SYSTEM, volatile="VOLATILE", placement=placement) == [
        {"role": "system", "content": "Be brief.\n\nSTABLE\n\nVOLATILE"}
    ]


@pytest.mark.parametrize("placement", [Placement.TURN, Placement.TURN_USER])
def test_a_volatile_block_alone_leaves_the_system_message_as_it_is(placement: Placement) -> None:
    assert placed(*HISTORY, stable="", volatile="VOLATILE", placement=placement)[:3] == HISTORY[:3]


@pytest.mark.parametrize(
    "written",
    [
        b'{"role":"developer","content":"x"}',
        b'{"role": "developer", "content": "x"}',
        b'{"content":"x","role":"developer"}',
        b'{ "role" : "developer", "content":"x"}',
        rb'{"role":"d\u0065veloper","content":"x"}',
    ],
)
def test_a_role_is_found_however_the_message_is_written(written: bytes) -> None:
    first, second = place([Raw(written), Raw(orjson.dumps(USER))], PlacedTexts(stable=b"STABLE"), Placement.SYSTEM)
    assert msgspec.json.decode(first) == {"role": "developer", "content": "x\n\nSTABLE"}
    assert msgspec.json.decode(second) == USER


@pytest.mark.parametrize("role", ["users", "system2", "developer_"])
def test_a_role_that_begins_like_another_is_another(role: str) -> None:
    other = {"role": role, "content": "x"}
    assert placed(other, USER) == [{"role": "system", "content": "STABLE"}, other, USER]


@pytest.mark.parametrize(
    "written",
    [
        b'{"role":"system","role":"user","content":"x"}',
        rb'{"role":"system","content":"x","r\u006fle":"user"}',
        b'{"role": "developer", "content": "decoy", "content": "x", "role": "user"}',
    ],
)
def test_of_a_role_that_is_told_twice_the_last_one_counts(written: bytes) -> None:
    found = place([Raw(written)], PlacedTexts(stable=b"STABLE"), Placement.SYSTEM)
    assert [msgspec.json.decode(message) for message in found] == [
        {"role": "system", "content": "STABLE"},
        {"role": "user", "content": "x"},
    ]


def test_a_role_that_becomes_something_else_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        place([Raw(b'{"role":"user","role":7,"content":"x"}')], PlacedTexts(stable=b"STABLE"), Placement.SYSTEM)


@pytest.mark.parametrize("placement", [Placement.TURN, Placement.TURN_USER])
def test_anchors_count_the_user_messages_that_questions_are_read_from(placement: Placement) -> None:
    messages = [
        Raw(b'{"role":"assistant","role":"user","content":"first"}'),
        Raw(b'{"role":"user","content":"second"}'),
    ]
    last = len(read_user_texts(messages)) - 1
    texts = PlacedTexts(anchored=(AnchoredBlock(last, "block", b"BLOCK"),))
    found = place_anchored(messages, texts, placement)
    assert bytes(found[0]) == bytes(messages[0])
    assert b"BLOCK" in bytes(found[-2] if placement is Placement.TURN else found[-1])
