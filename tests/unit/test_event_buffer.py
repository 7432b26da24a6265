"""Events out of pieces of any size."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.sse import EventBuffer, find_events_end

BYTES = st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"\r", b"\n\n", b"data: x"]), max_size=30).map(b"".join)


@given(BYTES, st.lists(st.integers(1, 5), max_size=40))
def test_pieces_of_any_size_give_the_same_events(data: bytes, sizes: list[int]) -> None:
    events, held, at = EventBuffer(), b"", 0
    for size in [*sizes, len(data)]:
        held += data[at : at + size]
        end = find_events_end(held)
        assert events.take(data[at : at + size]) == held[:end]
        held = held[end:]
        at += size
        assert events.tail == held
        assert len(events) == len(held)
