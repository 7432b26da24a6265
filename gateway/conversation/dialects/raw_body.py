"""A body as raw fields, and the tools in it, in any dialect, or a clear 400."""

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain, compress
from typing import Any, TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import astuple

from gateway.domain.chat import ChatRequest
from gateway.domain.injection import NO_TOOLS, ClientTool, ClientTools
from gateway.errors import InvalidJson, InvalidRequest

KINDS = {str: "a string", bool: "a boolean", int: "an integer", dict: "an object"}
SCALARS = {kind: msgspec.json.Decoder(kind | None) for kind in KINDS}
MARGIN = 12  # frames; the interpreter's depth limit counts Python calls and JSON nesting together
FLAT = 100  # brackets that a body may have without being nested too deeply, whoever decodes it

LARGE_BODY = 16 * 1024  # bytes from which one pass over a body saves more than it costs
OPENING_BYTES = 20  # of an entry that tell its style: as many as the longest usual opening has
SPEAKERS = ("system", "developer", "user", "assistant")
SPOKEN = tuple(f'{{"role":{space}"{role}"'.encode() for role in SPEAKERS for space in ("", " "))  # how messages begin
# How messages begin whose content is a text, up to the quote that opens it, with their roles.
TEXT_OPENINGS = {
    f'{{"role":{space}"{role}",{space}"content":{space}"'.encode(): role for role in SPEAKERS for space in ("", " ")
}
TEXT_TAIL = -len('"}')  # where the end of such a message begins
TEXT_STARTS = frozenset(opening[:-1] for opening in TEXT_OPENINGS)  # the same without that quote
LONGEST_TEXT = 500  # characters of a tool's name and description that are compared
KNOWN_SCHEMAS = 64  # sets of them that are kept as a dialect writes them
TOO_DEEP = "The body is nested too deeply."
UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)

_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_anything = msgspec.json.Decoder(Raw).decode
_tools = msgspec.json.Decoder(list[Raw])

ABSENT = Raw()  # empty, as no value is
TOOL_FIELDS = frozenset({"tool_choice", "tools"})

Decoded = TypeVar("Decoded")


class SplitBody(msgspec.Struct):
    """A body as the entries of its conversation, one by one, and its other fields."""

    fields: dict[str, Raw]
    entries: list[Raw]


class LargeBodySplitter:
    """Splits bodies of a dialect in one pass over their bytes, as long as they have no field that it does not know."""

    def __init__(self, entries: str, names: Sequence[str]) -> None:
        self._names = tuple(names)
        known: list[tuple[str, Any, Any]] = [(name, Raw, ABSENT) for name in names]
        self._decode = msgspec.json.Decoder(
            msgspec.defstruct("KnownFields", [(entries, list[Raw]), *known], forbid_unknown_fields=True)
        ).decode

    def split(self, body: bytes) -> SplitBody | None:
        """None if the body is small, has another field or any fault: then it takes two passes, which name the fault."""
        if len(body) <= LARGE_BODY:
            return None
        try:
            body.isascii() or body.decode()
            known = decode_deep(self._decode, body, MARGIN)
        except UNREADABLE:
            return None
        entries, *values = astuple(known)
        return SplitBody(dict(compress(zip(self._names, values, strict=True), values)), entries)


def list_openings(entries: Sequence[Raw], size: int = OPENING_BYTES) -> set[bytes]:
    """The ways in which entries begin; there are few, however long a conversation is."""
    try:
        return set(chain.from_iterable(map(get_opening_reader(size), entries)))
    except struct.error:  # one is shorter than that
        return {bytes(memoryview(entry)[:size]) for entry in entries}


def find_text_role(message: Raw) -> str | None:
    """The role of a message, which is valid JSON, if it has nothing but a role and a text with no quote in it.

    Everything up to the last quote but the one that ends the text is then an opening of ours. A quote is found without
    looking at each byte. The first bytes alone would not do: of a field that is there twice, the last one counts.
    """
    told = bytes(message)
    return TEXT_OPENINGS.get(told[: told.rfind(b'"', 0, TEXT_TAIL) + 1])


def skip_texts(messages: Sequence[Raw]) -> list[Raw]:
    """The messages but those that `find_text_role` knows, without a call for each."""
    starts = [told[: told.rfind(b'"', 0, TEXT_TAIL)] for told in map(bytes, messages)]
    if TEXT_STARTS.issuperset(starts):
        return []
    return [message for message, start in zip(messages, starts, strict=True) if start not in TEXT_STARTS]


@cache
def get_opening_reader(size: int) -> Callable[[Raw], tuple[bytes]]:
    """Reads the first bytes of an entry in place; it raises struct.error for a shorter one."""
    return struct.Struct(f"{size}s").unpack_from


def decode_fields(body: bytes) -> dict[str, Raw]:
    """A JSON object as raw fields. Raw does not check UTF-8, so the whole body is checked first."""
    try:
        body.isascii() or body.decode()
        return _decode_fields(body) if is_flat(body) else decode_deep(_decode_fields, body, MARGIN)
    except msgspec.ValidationError as fault:
        check_json(body)
        raise InvalidRequest("The body must be a JSON object.") from fault
    except UnicodeDecodeError as fault:
        raise InvalidJson("The body is not valid UTF-8.") from fault
    except RecursionError as fault:
        raise InvalidJson(TOO_DEEP) from fault
    except msgspec.DecodeError as fault:
        raise build_json_fault(fault) from fault


def check_json(body: bytes) -> None:
    """Raises InvalidJson unless the body is JSON of any kind."""
    try:
        decode_deep(_decode_anything, body, MARGIN)
    except RecursionError as fault:
        raise InvalidJson(TOO_DEEP) from fault
    except msgspec.DecodeError as fault:
        raise build_json_fault(fault) from fault


def build_json_fault(fault: msgspec.DecodeError) -> InvalidJson:
    return InvalidJson(f"The body is not valid JSON: {fault}.")


def decode_deep(decode: Callable[[bytes], Decoded], body: bytes, frames: int) -> Decoded:
    """Decode from deeper in the stack, so that whatever passes here can be decoded again later."""
    return decode_deep(decode, body, frames - 1) if frames else decode(body)


def is_flat(body: bytes) -> bool:
    """Whether a small body has too few brackets to be deep."""
    return len(body) <= LARGE_BODY and body.count(b"{") + body.count(b"[") <= FLAT


def decode_scalar(fields: dict[str, Raw], name: str, kind: type) -> Any:
    """The value of a field that must have this type; None if it is absent or null."""
    if name not in fields:
        return None
    try:
        return SCALARS[kind].decode(fields[name])
    except msgspec.MsgspecError as fault:
        raise InvalidRequest(f"`{name}` must be {KINDS[kind]}.", param=name) from fault


def read_tools(request: ChatRequest, read_names: Callable[[Raw], Iterable[str | None]]) -> ClientTools:
    """The client's tools, with the names of each; raises InvalidRequest if they are not a list of objects."""
    if request.fields.keys().isdisjoint(TOOL_FIELDS):
        return NO_TOOLS
    choice, given = request.find("tool_choice"), request.find("tools")
    if given is None:
        return ClientTools(choice=choice)
    try:
        tools = tuple(_tools.decode(given))
        names = frozenset(filter(None, chain.from_iterable(map(read_names, tools))))
    except msgspec.ValidationError as fault:
        raise InvalidRequest("`tools` must be an array of tool objects.", param="tools") from fault
    return ClientTools(tools, names, choice)


class ToolWriter:
    """Writes tools of ours as a dialect has them, each set of schemas once: most requests have the same object."""

    def __init__(self, write: Callable[[bytes], Raw]) -> None:
        self._write = write
        self._known: dict[int, tuple[Sequence[Raw], tuple[Raw, ...]]] = {}  # by identity, which lasts while it is here

    def write_all(self, schemas: Sequence[Raw]) -> tuple[Raw, ...]:
        known = self._known.get(id(schemas))
        if known is not None:
            return known[1]
        written = tuple([self._write(bytes(schema)) for schema in schemas])
        if isinstance(schemas, tuple):
            if len(self._known) >= KNOWN_SCHEMAS:
                self._known.clear()
            self._known[id(schemas)] = (schemas, written)
        return written


def describe_named(raw: Raw, name: str | None, description: str | None) -> ClientTool:
    """A tool as far as it can be compared; one without a name cannot."""
    return ClientTool(raw, name, f"{name}: {description or ''}"[:LONGEST_TEXT]) if name else ClientTool(raw, "", "")


def find_calls(
    entries: Sequence[Raw], mark: bytes, read_names: Callable[[Raw], Iterable[str | None]]
) -> frozenset[str]:
    """The tools that the entries of a history call; one that calls something has `mark` in it."""
    names: set[str | None] = set()
    for entry in entries:
        if mark in bytes(entry):
            try:
                names.update(read_names(entry))
            except UNREADABLE:
                continue  # its shape is the upstream's business
    return frozenset(name for name in names if name)
