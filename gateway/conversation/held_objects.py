"""What upstreams keep for everybody who shares an account: files, vector stores, containers, prompts (decision 095)."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from gateway.domain.chat import ChatRequest
from gateway.errors import InvalidJson, InvalidRequest

CONTAINER = "container"  # the id itself, or an object that has it
WITH_ID = frozenset({CONTAINER, "prompt", "voice"})
SINGLE_IDS = ("file_id", "vector_store_id", "container_id", "skill_id", "tunnel_id", "previous_message_id")
SINGLE = frozenset({*SINGLE_IDS, "cached_content"})
SEVERAL = frozenset({"file_ids", "vector_store_ids"})
HOLDERS = (CONTAINER, "prompt", "audio", "extra_body")  # fields of a request that may name objects in other words
# Below these, names are the client's own: schemas of its tools, labels, what never goes upstream.
OWN_NAMES = frozenset({"parameters", "schema", "input_schema", "output_schema", "input_examples"})
OWN_FIELDS = frozenset({"metadata", "context", "diagnostics"})
# What tells of objects without using them, by the type of what holds it: clients send it back as it came.
TOLD = frozenset(
    {("output_text", "annotations"), ("file_search_call", "results")}
    | {("tool_use", "input"), ("server_tool_use", "input"), ("mcp_tool_use", "input")}
    | {("code_execution_output", "file_id"), ("bash_code_execution_output", "file_id")}
)
PUBLIC_SKILL = "anthropic"  # the type of skills that everybody has
MAX_FOUND = 1000  # references in one request

# Not every `_id"`: conversations with tools are full of them. Lookbehind lets the search begin with a literal.
_NAMED = re.compile(
    rb'_ids?"(?:%b)' % b"|".join(b'(?<=%b")' % name.encode() for name in (*SINGLE_IDS, *sorted(SEVERAL)))
)
ESCAPED = re.compile(rb"\\u00[567]")  # a letter or an underscore: what a name may be hidden with


class HeldObject(msgspec.Struct, frozen=True):
    """An object that a request names, and where."""

    field: str  # "input[0].content[1].file_id"
    identity: str
    is_container: bool = False


class JsonObject(list[tuple[str, Any]]):
    """An object with every field that it has, repeated ones too: an upstream may take any of them."""

    def find_type(self) -> str | None:
        """What it says it is; None if it says nothing, or several things."""
        kinds = [value for name, value in self if name == "type"]
        return kinds[0] if len(kinds) == 1 and isinstance(kinds[0], str) else None


class JsonPath:
    """The way to a value, from the inside out: it is written down only where something is found."""

    __slots__ = ("_above", "_step")

    def __init__(self, above: "JsonPath | None", step: str | int) -> None:
        self._above, self._step = above, step

    def __str__(self) -> str:
        steps, at = [], self._above
        last = self._step
        while at is not None:
            steps.append(at._step)
            at = at._above
        written = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in (*reversed(steps), last)]
        return "".join(written).removeprefix(".")


def may_name_objects(request: ChatRequest) -> bool:
    """Whether a request may name an object that an upstream keeps; False is certain."""
    fields, raw = request.fields, request.raw
    if any(name in fields for name in HOLDERS) or _NAMED.search(raw) is not None:
        return True
    if (tools := fields.get("tools")) is not None and b'"container"' in bytes(tools):
        return True
    return b"\\" in raw and ESCAPED.search(raw) is not None


def find_held_objects(body: bytes) -> list[HeldObject]:
    """The objects that a JSON body names; raises InvalidRequest if there are too many."""
    try:
        whole = json.loads(body, object_pairs_hook=JsonObject, parse_int=float)
    except (ValueError, RecursionError) as fault:
        raise InvalidJson("The body is not valid JSON, or nested too deeply.") from fault
    found: list[HeldObject] = []
    for one in _walk(whole):
        found.append(one)
        if len(found) > MAX_FOUND:
            raise InvalidRequest(f"A request may name {MAX_FOUND} files and other objects at most.")
    return found


def _walk(whole: Any) -> Iterator[HeldObject]:
    waiting: list[tuple[JsonPath | None, Any]] = [(None, whole)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, JsonObject):
            kind = value.find_type()
            for name, inner in value:
                if name in OWN_NAMES or (path is None and name in OWN_FIELDS) or (kind, name) in TOLD:
                    continue
                at = JsonPath(path, name)
                yield from _read_field(at, name, inner, is_public=kind == PUBLIC_SKILL)
                if isinstance(inner, list):
                    waiting.append((at, inner))
        elif isinstance(value, list):
            waiting += [(JsonPath(path, place), one) for place, one in enumerate(value) if isinstance(one, list)]


def _read_field(path: JsonPath, name: str, value: Any, *, is_public: bool) -> Iterator[HeldObject]:
    """The objects that one field names."""
    if name in SINGLE and not (is_public and name == "skill_id"):
        yield from _take(path, [value], is_container=name == "container_id")
    elif name in SEVERAL and isinstance(value, list) and not isinstance(value, JsonObject):
        yield from _take(path, value)
    elif name in WITH_ID:
        inner = [one for key, one in value if key == "id"] if isinstance(value, JsonObject) else [value]
        where = JsonPath(path, "id") if isinstance(value, JsonObject) else path
        yield from _take(where, inner if name == CONTAINER or where is not path else (), is_container=name == CONTAINER)


def _take(path: JsonPath, values: Iterable[Any], *, is_container: bool = False) -> Iterator[HeldObject]:
    return (HeldObject(str(path), one, is_container) for one in values if isinstance(one, str) and one)
