"""Unified diffs of messages, in bounded time whatever they contain."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.replay.prompt_prefix import format_message

CONTEXT = 3  # lines around a change
MAX_PAIRS = 4_000_000  # of lines that are compared with each other; difflib takes quadratic time
MAX_LINES = 5_000  # of a diff


def diff_messages(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> str:
    """The difference between the messages of two requests; "" if there is none."""
    lines = diff_lines(list_lines(before), list_lines(after))
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"… {len(lines) - MAX_LINES} more lines"]
    return "\n".join(lines)


def list_lines(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Messages line by line, each below its role."""
    lines: list[str] = []
    for message in messages:
        role, *rest = format_message(message).split("\n")
        lines += [f"[{role}]", *rest]
    return lines


def diff_lines(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """A unified diff; where too much differs, all of it is replaced."""
    if before == after:
        return []
    start = count_common(before, after)
    most = min(len(before), len(after)) - start
    end = min(most, count_common(before[::-1], after[::-1]))
    head = max(0, start - CONTEXT)
    removed, added = before[start : len(before) - end], after[start : len(after) - end]
    last = min(CONTEXT, end)
    if len(removed) * len(added) > MAX_PAIRS:
        kept = [f" {line}" for line in before[head:start]], [f" {line}" for line in before[len(before) - end :][:last]]
        around = len(kept[0]) + len(kept[1])
        place = f"@@ -{head + 1},{around + len(removed)} +{head + 1},{around + len(added)} @@"
        changes = [*(f"-{line}" for line in removed), *(f"+{line}" for line in added)]
        return ["--- from", "+++ to", place, *kept[0], *changes, *kept[1]]
    # Only what differs is compared, with the lines around it; the numbers are then those of the whole.
    pair = (before[head : len(before) - end + last], after[head : len(after) - end + last])
    found = list(difflib.unified_diff(*pair, "from", "to", n=CONTEXT, lineterm=""))
    return [shift_place(line, head) if line.startswith("@@") else line for line in found]


def count_common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines are the same at the beginning."""
    pairs = zip(one, other, strict=False)
    return next((number for number, pair in enumerate(pairs) if pair[0] != pair[1]), min(len(one), len(other)))


def shift_place(line: str, by: int) -> str:
    """The head of a hunk with its line numbers moved."""
    _, *places, _ = line.split(" ")
    moved = []
    for place in places:
        number, comma, count = place[1:].partition(",")
        moved.append(f"{place[0]}{int(number) + by}{comma}{count}")
    return f"@@ {' '.join(moved)} @@"
