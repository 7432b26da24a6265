"""Tool calls of one assistant turn, put together from deltas or taken from a whole message."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson


class FunctionCall(msgspec.Struct, frozen=True, array_like=True):
    """A complete call, as it is run or stored."""

    id: str
    name: str
    arguments: str


@dataclass(slots=True)
class ToolCall:
    """One tool call as far as it is known; `own` is None until its name is certain."""

    parts: dict[str, Any]
    own: bool | None = None
    shown_index: int = -1
    withheld: list[dict[str, Any]] = field(default_factory=list)

    @property
    def id(self) -> str:
        return str(self.parts.get("id") or "")

    @property
    def name(self) -> str:
        return str(read_function(self.parts).get("name") or "")

    @property
    def arguments(self) -> str:
        value = read_function(self.parts).get("arguments")
        return value if isinstance(value, str) else orjson.dumps(value).decode() if value else ""

    def make_function_call(self) -> FunctionCall:
        return FunctionCall(self.id, self.name, self.arguments)


def read_function(call: dict[str, Any]) -> dict[str, Any]:
    """The `function` of a call or of a delta, {} where a provider left it out."""
    function = call.get("function")
    return function if isinstance(function, dict) else {}


def is_valid_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def absorb(whole: dict[str, Any], part: dict[str, Any]) -> None:
    """Add a delta of a call to what is known of it; fields of providers (signatures) are kept."""
    for key, value in part.items():
        if key == "index" or value is None:
            continue
        if key == "function":
            absorb_function(whole["function"], read_function(part))
        elif key != "id" or not whole.get("id"):
            whole[key] = value


def absorb_function(known: dict[str, Any], part: dict[str, Any]) -> None:
    """Add a delta of a function; providers send null or nothing for what is unchanged, and some repeat the name."""
    for key, value in part.items():
        if value in (None, "") or (key == "name" and value == known.get("name")):
            continue
        old = known.get(key, "")
        known[key] = old + value if isinstance(old, str) and isinstance(value, str) else value


class CallTracker:
    """Sorts the deltas of one turn into calls: ours are withheld, the client's shown from index 0.

    Providers differ: some omit `index`, some give every call index 0 with an id of its own, some repeat the id with
    every delta, some split the name.
    """

    def __init__(self, own_names: frozenset[str]) -> None:
        self.own_names = own_names
        self.calls: list[ToolCall] = []
        self._by_index: dict[int, ToolCall] = {}
        self._shown = 0

    def take(self, deltas: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add the deltas of one chunk; return those that the client may see, renumbered."""
        shown: list[dict[str, Any]] = []
        named: list[ToolCall] = []  # a chunk names each of its calls once
        for delta in deltas:
            call = self._find(delta, named)
            if call is None:
                shown += self.settle()
                call = ToolCall({"id": None, "type": "function", "function": {"name": "", "arguments": ""}})
                self.calls.append(call)
                if isinstance(index := delta.get("index"), int):
                    self._by_index[index] = call
            absorb(call.parts, delta)
            named += [call] if read_function(delta).get("name") else []
            call.withheld.append(delta)
            self._decide_owner(call)
            shown += self._release(call)
        return shown

    def settle(self) -> list[dict[str, Any]]:
        """Names are complete now: decide what was left open, return what the client may see of it."""
        shown: list[dict[str, Any]] = []
        for call in self.calls:
            if call.own is None:
                call.own = call.name in self.own_names
                shown += self._release(call)
        return shown

    @property
    def own_calls(self) -> list[ToolCall]:
        return [call for call in self.calls if call.own]

    @property
    def client_calls(self) -> list[ToolCall]:
        return [call for call in self.calls if not call.own]

    def _find(self, delta: dict[str, Any], named: list[ToolCall]) -> ToolCall | None:
        """The call that a delta continues, None if it begins one."""
        index, identity, name = delta.get("index"), delta.get("id"), read_function(delta).get("name")
        if isinstance(index, int):
            call = self._by_index.get(index)
        elif identity:
            return next((call for call in self.calls if call.id == identity), None)
        else:
            call = self.calls[-1] if self.calls else None
        if call is None or (identity and call.id and identity != call.id):
            return None
        complete = any(call is one for one in named) or (call.arguments and is_valid_json(call.arguments))
        return None if name and not identity and complete else call

    def _decide_owner(self, call: ToolCall) -> None:
        """Decide whose call it is as soon as its name is final."""
        if call.own is not None or not call.name:
            return
        if call.arguments:
            call.own = call.name in self.own_names
        elif not any(name.startswith(call.name) for name in self.own_names):
            call.own = False

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
