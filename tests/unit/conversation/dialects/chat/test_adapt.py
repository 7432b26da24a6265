"""What some upstreams want differently."""

from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.dialects.chat.placement import add_cache_marker, replace_developer_role
from gateway.domain.json_text import escape_json

STABLE = escape_json("--- Context [t] ---\n[Voice]\nTone: calm\n--- End [t] ---")


def raw(**message: object) -> Raw:
    return Raw(msgspec.json.encode(message))


def plain(messages: list[Raw]) -> list[dict[str, Any]]:
    return [msgspec.json.decode(message) for message in messages]


def stable() -> str:
    return msgspec.json.decode(b'"' + STABLE + b'"')


def test_the_marked_part_ends_with_the_stable_block_and_the_rest_follows() -> None:
    message = raw(role="system", content=f"Be kind.\n\n{stable()}\n\nvolatile")
    [system, user] = plain(add_cache_marker({}, [message, raw(role="user", content="hi")], STABLE))
    assert system["content"] == [
        {"type": "text", "text": f"Be kind.\n\n{stable()}", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "volatile"},
    ]
    assert user == {"role": "user", "content": "hi"}


def test_parts_of_the_client_stay_and_only_the_block_is_marked() -> None:
    parts = [{"type": "text", "text": "Be kind."}, {"type": "text", "text": stable()}]
    [system] = plain(add_cache_marker({}, [raw(role="system", content=parts)], STABLE))
    assert system["content"] == [parts[0], {**parts[1], "cache_control": {"type": "ephemeral"}}]


def test_the_developer_role_becomes_system_where_it_is_not_known() -> None:
    messages = [raw(role="developer", content="Be kind.", name="x"), raw(role="user", content="hi")]
    assert plain(replace_developer_role(messages)) == [
        {"role": "system", "content": "Be kind.", "name": "x"},
        {"role": "user", "content": "hi"},
    ]
