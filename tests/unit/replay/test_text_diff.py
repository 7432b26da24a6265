"""Unified diffs that can be applied, in bounded time."""

import time

from hypothesis import given
from hypothesis import strategies as st

from gateway.replay.text_diff import MAX_LINES, diff_lines, diff_messages

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "--- x", "+++ y", "@@ z"]), max_size=25)


def apply_patch(before: list[str], patch: list[str]) -> list[str]:
    """What a patch makes of the lines; fails unless its numbers and its context fit."""
    if not patch:
        return before
    assert patch[:2] == ["--- from", "+++ to"]
    after: list[str] = []
    place = 0
    for line in patch[2:]:
        if line.startswith("@@ -"):
            start, _, length = line.split(" ")[1][1:].partition(",")
            first = int(start) - (0 if length == "0" else 1)
            after += before[place:first]
            place = first
        elif line[:1] == "+":
            after.append(line[1:])
        else:
            assert before[place] == line[1:]
            after += [line[1:]] if line[:1] == " " else []
            place += 1
    return after + before[place:]


@given(LINES, LINES, LINES, LINES)
def test_a_diff_can_be_applied(head: list[str], one: list[str], other: list[str], tail: list[str]) -> None:
    before, after = head + one + tail, head + other + tail
    patch = diff_lines(before, after)
    assert apply_patch(before, patch) == after
    assert (patch == []) == (before == after)


def test_what_would_take_too_long_is_replaced_as_a_whole() -> None:
    before = ["same", *(["x", "y"] * 5_000), "end"]
    after = ["same", *(["y", "z"] * 5_000), "end"]
    began = time.process_time()
    patch = diff_lines(before, after)
    assert time.process_time() - began < 2
    assert apply_patch(before, patch) == after


def test_a_long_diff_is_cut_and_says_so() -> None:
    before, after = ({"role": "user", "content": "\n".join([letter] * 4_000)} for letter in "ab")
    lines = diff_messages([before], [after]).split("\n")
    assert (len(lines), lines[-1][:1]) == (MAX_LINES + 1, "…")


def test_messages_are_shown_below_their_roles() -> None:
    before = [{"role": "system", "content": "One.\nTwo."}, {"role": "user", "content": "Hi"}]
    after = [{"role": "system", "content": "One.\nThree."}, {"role": "user", "content": "Hi"}]
    assert diff_messages(before, before) == ""
    assert diff_messages(before, after).split("\n")[3:] == [" [system]", " One.", "-Two.", "+Three.", " [user]", " Hi"]
