"""Items that are known to be plain messages by a quote: whatever is skipped would have been read as one."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from gateway.conversation.dialects.raw_body import skip_texts
from gateway.conversation.dialects.responses import request as requests
from gateway.conversation.dialects.responses.dialect import RESPONSES
from gateway.conversation.dialects.responses.references import stands_alone

PIECES = ["x", "é", "{", "}", '\\"', "\\\\", '","id":"msg_1', '","type": "item_reference', '", "content":"', '"', "\\"]
REFERENCE = b'{"role":"user","content":"Hi","type":"item_reference","id":"msg_1"}'
texts = st.text(alphabet='ab\n"é\\{}', max_size=6)
odd: Any = st.one_of(texts, st.none(), st.just([]), st.just({"text": "x"}))
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "developer", "tool", 1]), "content": odd},
    optional={"type": st.sampled_from(["message", "item_reference"]), "id": odd, "phase": texts},
)


def read_whole(items: list[Raw]) -> bool:
    """Whether all are plain messages, each of them read."""
    try:
        list(map(requests._read_plain, items))
    except msgspec.MsgspecError:
        return False
    return True


@given(st.lists(messages, max_size=4), st.sampled_from([(",", ":"), (", ", ": ")]), st.booleans())
def test_items_are_plain_as_if_all_of_them_were_read(
    given: list[dict[str, Any]], separators: tuple[str, str], escapes: bool
) -> None:
    written = [json.dumps(one, separators=separators, ensure_ascii=escapes) for one in given]
    items = [Raw(one.encode()) for one in written]
    assert requests.are_plain(items) == read_whole(items)


@given(st.lists(st.sampled_from(PIECES), max_size=7).map("".join))
def test_what_is_skipped_has_a_role_and_a_text_and_nothing_else(written: str) -> None:
    item = Raw(f'{{"role":"user","content":"{written}"}}'.encode())
    try:
        fields = json.loads(bytes(item), object_pairs_hook=list)
    except ValueError:
        return  # such an item never comes here
    if not skip_texts([item]):
        assert [name for name, _ in fields] == ["role", "content"]
        assert isinstance(fields[1][1], str)


def test_texts_are_not_read_again_unless_they_have_quotes() -> None:
    plain = [Raw(b'{"role":"user","content":"A \\\\ b\\n"}'), Raw(b'{"role": "assistant", "content": ""}')]
    others = [Raw(b'{"role":"user","content":"\\"Hi\\""}'), Raw(b'{"role":"user","content":"Hi" }'), Raw(b"{}")]
    assert skip_texts([*plain, *others]) == others


@pytest.mark.parametrize("many", [1, 40])
def test_a_reference_among_texts_is_still_found(many: int) -> None:
    texts = b",".join([b'{"role":"user","content":"%b"}' % (b"x" * 980)] * many)
    assert stands_alone(RESPONSES.decode(b'{"input":[%b]}' % texts))
    assert not stands_alone(RESPONSES.decode(b'{"input":[%b,%b]}' % (texts, REFERENCE)))
