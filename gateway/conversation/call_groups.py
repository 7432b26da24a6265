"""Which calls of a history came in one hidden turn."""

from collections import defaultdict, deque
from collections.abc import Collection, Container, Mapping, Sequence
from itertools import count

import msgspec

from gateway.conversation.hidden_turn import HiddenTurn
from gateway.conversation.history import HistoryCall


class CallGroup(msgspec.Struct):
    """Calls of the client that came in one turn, wherever they stand now."""

    turn: HiddenTurn  # as far as the caller can reach it
    calls: list[HistoryCall]  # in the order of the turn's

    @property
    def has_same_ids(self) -> bool:
        return [call.mark.id for call in self.calls] == [call.id for call in self.turn.calls]


def find_groups(
    calls: Sequence[HistoryCall], turns: Mapping[int, HiddenTurn], reachable: Container[str]
) -> list[CallGroup]:
    """The groups of calls to which something hidden belongs that the caller can reach."""
    groups = []
    end = 0
    for number, turn in sorted(turns.items()):
        if number < end or (matched := match_calls(turn, calls[number : number + len(turn.calls)])) is None:
            continue
        end = number + len(matched)
        permitted = turn.permit(reachable)
        if permitted.has_results:
            groups.append(CallGroup(permitted, matched))
    return groups


def match_calls(turn: HiddenTurn, seen: Sequence[HistoryCall]) -> list[HistoryCall] | None:
    """The calls of a history in the order of the turn's; None if they are others, or not all are answered."""
    if len({call.message.run for call in seen}) != 1 or any(call.result is None for call in seen):
        return None
    waiting: dict[bytes, deque[HistoryCall]] = defaultdict(deque)
    for call in seen:
        waiting[call.mark.meaning].append(call)
    found = [waiting[mark.meaning].popleft() for mark in turn.marks if waiting[mark.meaning]]
    return found if len(found) == len(turn.calls) else None


def find_free_id(identity: str, taken: Collection[str]) -> str:
    """An id for a call of ours: its own, unless the client has given that to one of its calls."""
    if identity not in taken:
        return identity
    return next(name for number in count(1) if (name := f"{identity}_{number}") not in taken)
