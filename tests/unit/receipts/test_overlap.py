"""How much of a resource shows in an answer."""

import orjson
import pytest

from gateway.receipts.overlap import OverlapMeter, find_phrases

SHIPPING = "The warehouse in Rotterdam ships every parcel before nine in the morning."
RETURNS = "Damaged goods go back to the depot in Antwerp within four weeks."


def measure(answer: str, asked: str = "When?", **texts: str) -> dict[str, tuple[int, int]]:
    request = orjson.dumps({"messages": [{"role": "user", "content": asked}]})
    return {one["id"]: (one["phrases"], one["shown"]) for one in OverlapMeter().measure(texts, request, answer)}


def test_a_phrase_is_three_words_in_a_row_one_of_them_longer() -> None:
    assert len(find_phrases("One two three four")) == 2
    assert find_phrases("ONE, two... THREE") == find_phrases("one two three")
    assert find_phrases("one of the and so on") == frozenset()
    assert find_phrases("only two") == frozenset()


def test_a_quoted_resource_shows_and_another_does_not() -> None:
    found = measure(f"As I said: {SHIPPING}", ship=SHIPPING, back=RETURNS)
    phrases, shown = found["ship"]
    assert shown == phrases == len(find_phrases(SHIPPING))
    assert found["back"][1] == 0


def test_what_the_client_wrote_is_not_the_resource_s_doing() -> None:
    everything = measure(SHIPPING, asked=f"Is it true? {SHIPPING}", ship=SHIPPING)
    assert everything == {}
    part = measure(SHIPPING, asked="the warehouse in Rotterdam ships", ship=SHIPPING)
    assert 0 < part["ship"][0] < len(find_phrases(SHIPPING))


def test_what_two_resources_share_is_neither_s() -> None:
    found = measure(SHIPPING, one=SHIPPING, two=f"{SHIPPING} {RETURNS}")
    assert set(found) == {"two"}
    assert found["two"][1] == 0


def test_a_paraphrase_is_not_recognised() -> None:
    assert measure("Parcels leave Rotterdam early.", ship=SHIPPING)["ship"][1] == 0


def test_languages_without_spaces_are_split_into_characters() -> None:
    assert measure("包裹在每天早上九点之前发货", ship="仓库在每天早上九点之前发货")["ship"][1] >= 2


@pytest.mark.parametrize("request_", [b"", b"{", b"[]", b'{"messages":5}', b'{"messages":[1]}', b"\xff"])
def test_a_request_that_cannot_be_read_is_not_measured(request_: bytes) -> None:
    assert OverlapMeter().measure({"ship": SHIPPING}, request_, SHIPPING) == []


def test_parts_of_a_message_are_text_too() -> None:
    parts = [{"type": "text", "text": SHIPPING}, {"type": "image_url", "image_url": {"url": "data:"}}, 5]
    request = orjson.dumps({"messages": [{"role": "user", "content": parts}, {"role": "tool", "content": None}]})
    assert OverlapMeter().measure({"ship": SHIPPING}, request, SHIPPING) == []
