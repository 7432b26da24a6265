"""When pieces of text are one whole JSON value."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.json_scan import JsonScan, is_valid_json

PIECES = st.lists(st.sampled_from(["{", "}", "[", "]", '"', "\\", "a", "1", ",", ":", " ", '"a":1', "{}"]), max_size=12)


@given(PIECES)
def test_it_agrees_with_a_parser_after_every_piece(pieces: list[str]) -> None:
    scan = JsonScan()
    for number, piece in enumerate(pieces, 1):
        scan.add(piece)
        assert scan.is_complete == is_valid_json("".join(pieces[:number]))
