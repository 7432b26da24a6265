"""Tool calls of one assistant turn, put together from deltas or taken from a whole message."""

from typing import Any

import msgspec
import orjson

from gateway.conversation.turn import FunctionCall, TurnCall
from gateway.errors import UpstreamInvalid
from gateway.json_scan import JsonScan

MAX_TURN_CALLS = 1000  # of one turn
MAX_WITHHELD = 1000  # deltas of a call whose name is not certain; models name a call at once


class ToolCall(msgspec.Struct):
    """One tool call as far as it is known; `own` is None until its name is certain."""

    _parts: dict[str, Any]  # without the fragments that wait to be joined
    own: bool | None = None
    position: int = 0  # among the calls of its turn
    shown_index: int = -1
    withheld: list[dict[str, Any]] = msgspec.field(default_factory=list)
    _fragments: dict[str, list[str]] = msgspec.field(default_factory=dict)  # of the function's texts
    _name_length: int = 0
    _scan: JsonScan = msgspec.field(default_factory=JsonScan)  # of the arguments

    @property
    def parts(self) -> dict[str, Any]:
        """The call as a message carries it."""
        for key, fragments in self._fragments.items():
            self._parts["function"][key] += "".join(fragments)
        self._fragments.clear()
        return self._parts

    @property
    def id(self) -> str:
        return str(self._parts.get("id") or "")

    @property
    def name(self) -> str:
        return str(read_function(self.parts).get("name") or "")

    @property
    def arguments(self) -> str:
        value = read_function(self.parts).get("arguments")
        return value if isinstance(value, str) else orjson.dumps(value).decode() if value else ""

    @property
    def has_arguments(self) -> bool:
        return bool(self._fragments.get("arguments") or read_function(self._parts).get("arguments"))

    @property
    def has_complete_arguments(self) -> bool:
        """Whether the arguments so far are valid JSON, to which nothing can be added."""
        if isinstance(read_function(self._parts).get("arguments"), str):
            return self.has_arguments and self._scan.is_complete
        return self.has_arguments

    def make_turn_call(self) -> TurnCall:
        return TurnCall(FunctionCall(self.id, self.name, self.arguments), bool(self.own))

    def add(self, delta: dict[str, Any]) -> None:
        """Add a delta to what is known; fields of providers (signatures) are kept."""
        for key, value in delta.items():
            if key == "index" or value is None:
                continue
            if key == "function":
                self._add_function(read_function(delta))
            elif key != "id" or not self._parts.get("id"):
                self._parts[key] = value

    def _add_function(self, part: dict[str, Any]) -> None:
        """Add a delta of the function; providers send null or nothing for what is unchanged, some repeat the name."""
        known = self._parts["function"]
        for key, value in part.items():
            if value in (None, "") or (key == "name" and self._is_name(value)):
                continue
            if not (isinstance(value, str) and isinstance(known.get(key, ""), str)):
                self._drop(key)  # a value of another kind replaces what came before it
            if isinstance(value, str):
                known.setdefault(key, "")
                self._fragments.setdefault(key, []).append(value)
                self._name_length += len(value) if key == "name" else 0
                if key == "arguments":
                    self._scan.add(value)
            else:
                known[key] = value

    def _drop(self, key: str) -> None:
        self._parts["function"].pop(key, None)
        self._fragments.pop(key, None)
        self._name_length = 0 if key == "name" else self._name_length
        self._scan = JsonScan() if key == "arguments" else self._scan

    def _is_name(self, value: Any) -> bool:
        """Whether this is the name so far; only its own fragments are joined, since the arguments may be long."""
        if not isinstance(value, str) or len(value) != self._name_length:
            return False
        name = str(self._parts["function"].get("name") or "") + "".join(self._fragments.get("name", ()))
        return value == name


def read_function(call: dict[str, Any]) -> dict[str, Any]:
    """The `function` of a call or of a delta, {} where a provider left it out."""
    function = call.get("function")
    return function if isinstance(function, dict) else {}


def check_number(calls: int) -> None:
    """Raises UpstreamInvalid if a turn has more calls than any model makes."""
    if calls > MAX_TURN_CALLS:
        raise UpstreamInvalid(f"The upstream made more than {MAX_TURN_CALLS} tool calls in one turn.")


class CallTracker:
    """Sorts the deltas of one turn into calls: ours are withheld, the client's shown from index 0.

    Providers differ: some omit `index`, some give every call index 0 with an id of its own, some repeat the id with
    every delta, some split the name.
    """

    def __init__(self, own_names: frozenset[str]) -> None:
        self.own_names = own_names
        self.calls: list[ToolCall] = []
        self._by_index: dict[int, ToolCall] = {}
        self._by_id: dict[str, ToolCall] = {}
        self._undecided: list[ToolCall] = []
        self._own = 0
        self._shown = 0

    def take(self, deltas: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add the deltas of one chunk; return those that the client may see, renumbered."""
        shown: list[dict[str, Any]] = []
        named: set[int] = set()  # calls, by identity: a chunk names each of its calls once
        for delta in deltas:
            call = self._find(delta, named)
            if call is None:
                shown += self.settle()
                call = self._begin(delta)
            call.add(delta)
            if call.id and call.position <= self._by_id.setdefault(call.id, call).position:
                self._by_id[call.id] = call  # of two with one id the first is continued
            if read_function(delta).get("name"):
                named.add(id(call))
            call.withheld.append(delta)
            if len(call.withheld) > MAX_WITHHELD:
                raise UpstreamInvalid("The upstream sent a tool call without a name.")
            self._decide_owner(call)
            shown += self._release(call)
        return shown

    def settle(self) -> list[dict[str, Any]]:
        """Names are complete now: decide what was left open, return what the client may see of it."""
        shown: list[dict[str, Any]] = []
        undecided, self._undecided = self._undecided, []
        for call in undecided:
            if call.own is None:
                self._set_owner(call, call.name in self.own_names)
                shown += self._release(call)
        return shown

    @property
    def has_own_calls(self) -> bool:
        return self._own > 0

    @property
    def has_client_calls(self) -> bool:
        return self._own < len(self.calls)

    def _begin(self, delta: dict[str, Any]) -> ToolCall:
        check_number(len(self.calls) + 1)
        call = ToolCall({"id": None, "type": "function", "function": {"name": "", "arguments": ""}})
        call.position = len(self.calls)
        self.calls.append(call)
        self._undecided.append(call)
        if isinstance(index := delta.get("index"), int):
            self._by_index[index] = call
        return call

    def _find(self, delta: dict[str, Any], named: set[int]) -> ToolCall | None:
        """The call that a delta continues, None if it begins one."""
        index, identity, name = delta.get("index"), delta.get("id"), read_function(delta).get("name")
        if isinstance(index, int):
            call = self._by_index.get(index)
        elif identity:
            return self._by_id.get(identity) if isinstance(identity, str) else None
        else:
            call = self.calls[-1] if self.calls else None
        if call is None or (identity and call.id and identity != call.id):
            return None
        if not name or identity:
            return call
        return None if id(call) in named or call.has_complete_arguments else call

    def _decide_owner(self, call: ToolCall) -> None:
        """Decide whose call it is as soon as its name is final."""
        if call.own is not None or not call.name:
            return
        if call.has_arguments:
            self._set_owner(call, call.name in self.own_names)
        elif not any(name.startswith(call.name) for name in self.own_names):
            self._set_owner(call, False)

    def _set_owner(self, call: ToolCall, own: bool) -> None:
        call.own = own
        self._own += own

    def _release(self, call: ToolCall) -> list[dict[str, Any]]:
        if call.own is None:
            return []
        deltas, call.withheld = call.withheld, []
        if call.own:
            return []
        if call.shown_index < 0:
            call.shown_index = self._shown
            self._shown += 1
        return [{**delta, "index": call.shown_index} for delta in deltas]
