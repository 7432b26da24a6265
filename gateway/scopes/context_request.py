"""What headers and the body's `context` object ask for."""

from collections.abc import Iterable
from datetime import UTC, datetime
from math import inf
from typing import Annotated, Any, Literal
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Raw
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from gateway.domain.agent import MAX_DEPTH, MAX_NEIGHBOURS, SelectionSettings
from gateway.domain.hints import NO_HINTS, ContextHints
from gateway.domain.scope import REQUEST_TYPES, ContextRequest, RequestItem
from gateway.errors import QUOTED, InvalidRequest, SessionRequired, find_similar, shorten
from gateway.validation import describe_detail

PREFIX = b"x-context-"
TEXTS = ("session", "agent", "profile", "prompt", "content", "task", "user", "language", "type")
PLAIN = frozenset(TEXTS) - {"type"}
SESSION_LISTS = ("pin", "unpin")  # they change the session
LISTS = ("contexts", "include", "exclude", *SESSION_LISTS)
READ = frozenset({*TEXTS, *LISTS, "budget", "inject"})
SENT = ("receipt", "injected", "tokens", "degraded", "snapshot", "suggested-content")
NOT_READ = frozenset({*SENT, "key"})  # only sent, or read before

MOST_ENTRIES = 1000  # of a list or an object
SMALL_BYTES = 64 * 1024  # of a whole object, or of what one of its keys has besides `vars` and `items`
VARIABLE_BYTES = 1024 * 1024  # of `vars`
BUDGET_DIGITS = 18  # further ones make no difference: no budget is that large, and receipts can tell no enormous number
MAX_BUDGET = 10**BUDGET_DIGITS - 1
MOST_COLONS = 10_000  # of a large object in which an unknown key is looked for: no more keys than that are decoded

Name = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Language = Annotated[str, StringConstraints(max_length=64)]  # compared with that of every resource
Score = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=1000)]


class StrictModel(BaseModel):
    """Part of the `context` object: unknown keys and types that need conversion are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)


class ThresholdsBody(StrictModel):
    include_score: Score | None = None
    min_score: Score | None = None
    top_k: Annotated[int, Field(ge=1, le=1000)] | None = None
    top_n: Count | None = None


class ExpansionBody(StrictModel):
    depth: Annotated[int, Field(ge=0, le=MAX_DEPTH)] | None = None
    threshold: Score | None = None
    top_n: Annotated[int, Field(ge=0, le=MAX_NEIGHBOURS)] | None = None


class SelectionBody(ThresholdsBody):
    enabled: bool | None = None
    preset: Literal["conservative", "normal", "aggressive"] | None = None
    kinds: dict[Literal["reference", "tool"], ThresholdsBody] = {}
    expansion: ExpansionBody = ExpansionBody.model_construct()
    sticky: bool | None = None


class TimeRangeBody(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)

    start: datetime | None = None
    end: datetime | None = None


class HintsBody(StrictModel):
    prioritize_types: Annotated[list[Name], Field(max_length=50)] = []
    time_range: TimeRangeBody | None = None
    include: Annotated[list[Name], Field(max_length=200)] = []
    exclude: Annotated[list[Name], Field(max_length=200)] = []
    max_depth: Annotated[int, Field(ge=0, le=10)] | None = None


class ItemBody(StrictModel):
    name: Name
    text: str


class ContextObject(StrictModel):
    """The `context` object of a chat body."""

    session: str | None = None
    agent: str | None = None
    profile: str | None = None
    prompt: str | None = None
    content: str | None = None
    task: str | None = None
    user: str | None = None
    language: Language | None = None
    type: str | None = None
    budget: Annotated[int, Field(ge=0)] | None = None
    contexts: list[Name] = []
    include: list[str] = []
    exclude: list[str] = []
    pin: list[str] = []
    unpin: list[str] = []
    inject: Literal["on", "off"] | None = None
    selection: SelectionBody | None = None
    refs: dict[str, Any] = {}
    vars: dict[str, str | int | float | bool] = {}
    hints: HintsBody | None = None
    items: list[ItemBody] = []


def read_context_request(headers: Iterable[tuple[bytes, bytes]], context: Raw | None) -> ContextRequest:
    """The request that headers and body make together; a header overrides the body."""
    given = read_headers(headers)
    if context is None or bytes(context) == b"null":
        return build_plain_request(given) if given.keys() <= PLAIN else build_context_request(given, EMPTY_OBJECT)
    return build_context_request(given, read_context(context))


def read_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The `x-context-*` headers by name, percent-decoded once; lists stay comma-separated. Others must not be given."""
    given: dict[str, str] = {}
    seen = set()
    for raw_name, raw_value in headers:
        header = raw_name.decode("latin-1")
        name = header[len(PREFIX) :]
        if name in NOT_READ:
            continue
        if name not in READ:
            near = find_similar(name, sorted({*READ, "key"}), 1)
            hint = f" Did you mean x-context-{near[0]}?" if near else ""
            raise InvalidRequest(f"There is no header {shorten(header)}.{hint}", param=header)
        if name in seen and name not in LISTS:
            raise InvalidRequest(f"The header {header} must not be repeated.", param=header)
        seen.add(name)
        value = decode_value(raw_value, header)
        if value:
            given[name] = f"{given[name]},{value}" if name in given else value
    return given


def decode_value(raw: bytes, header: str) -> str:
    try:
        return (unquote_to_bytes(raw) if b"%" in raw else raw).decode().strip()
    except UnicodeDecodeError as fault:
        raise InvalidRequest(f"{header} is not percent-encoded UTF-8.", param=header) from fault


def read_context(raw: Raw) -> ContextObject:
    try:
        return ContextObject.model_validate(drop_nulls(read_context_data(raw)))
    except ValidationError as fault:
        first = fault.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part)[:QUOTED] for part in ("context", *first["loc"]))
        wrong = describe_detail(ContextObject, first, first["loc"])
        raise InvalidRequest(f"{path}: {wrong}{'' if wrong.endswith('?') else '.'}", param=path) from fault
    except (msgspec.MsgspecError, RecursionError) as fault:
        raise InvalidRequest("`context` could not be parsed.", param="context") from fault


def drop_nulls(given: Any) -> Any:
    """What is given without its nulls, which mean that a key is absent; an unknown key is a fault in any case."""
    if not isinstance(given, dict):
        return given
    return {key: value for key, value in given.items() if value is not None or key not in ContextObject.model_fields}


def read_context_data(raw: Raw) -> Any:
    """What the object says; of a large one, nothing is decoded that could not be valid.

    A million small values take seconds to decode, on the loop that all requests share, and no request needs them.
    """
    if len(bytes(raw)) <= SMALL_BYTES:
        check_sizes("context", raw)
        return msgspec.json.decode(raw)
    try:
        parts: dict[str, Raw] = msgspec.structs.asdict(_decode_parts(raw))
    except msgspec.ValidationError:
        unknown = _find_unknown_key(raw)
        if unknown is None:
            raise
        return {unknown: None}
    said: dict[str, Any] = {}
    for name, part in parts.items():
        if bytes(part) in (b"", b"null"):
            continue
        if name == "items":
            said[name] = msgspec.to_builtins(_decode_items(part))
            if len(said[name]) > MOST_ENTRIES:
                raise InvalidRequest(f"context.items has more than {MOST_ENTRIES} entries.", param="context.items")
        else:
            most = VARIABLE_BYTES if name == "vars" else SMALL_BYTES
            if len(bytes(part)) > most:
                raise InvalidRequest(f"context.{name} is larger than {most} bytes.", param=f"context.{name}")
            check_sizes(f"context.{name}", part, 0 if name == "vars" else 1)
            said[name] = _decode_variables(part) if name == "vars" else msgspec.json.decode(part)
    return said


def _find_unknown_key(raw: Raw) -> str | None:
    """The first key that the object cannot have; None if there is none, or too much to look at."""
    text = bytes(raw)
    if not text.startswith(b"{") or text.count(b":") > MOST_COLONS:
        return None
    keys = msgspec.json.decode(raw, type=dict[str, Raw])
    return next((key for key in keys if key not in ContextObject.model_fields), None)


def check_sizes(path: str, raw: Raw, levels: int = 2) -> None:
    """Raise if there are more entries than anybody needs: each would be looked up, or be a fault with a message.

    Nothing is decoded for that but what is in between: a million values would be a million objects.
    """
    text = bytes(raw)
    if len(text) < 2 * MOST_ENTRIES or not text.startswith((b"{", b"[")):
        return
    entries = msgspec.json.decode(raw, type=dict[str, Raw] if text.startswith(b"{") else list[Raw])
    if len(entries) > MOST_ENTRIES:
        raise InvalidRequest(f"{path} has more than {MOST_ENTRIES} entries.", param=path)
    if levels and isinstance(entries, dict):
        for name, inner in entries.items():
            check_sizes(f"{path}.{name[:QUOTED]}", inner, levels - 1)


def build_plain_request(given: dict[str, str]) -> ContextRequest:
    """The request of headers that hold one name each, as most do: there is nothing else to look at."""
    if not given:
        return EMPTY_REQUEST
    return ContextRequest(**given, said_in={name: f"x-context-{name}" for name in given})  # type: ignore[arg-type]


def build_context_request(given: dict[str, str], body: ContextObject) -> ContextRequest:
    check_pins(given, body)
    names = {name: given.get(name) or (getattr(body, name) or None) for name in TEXTS if name != "type"}
    return ContextRequest(
        **names,
        type=parse_type(given, body),
        budget=parse_budget(given["budget"]) if "budget" in given else limit_budget(body.budget),
        inject=parse_switch(given["inject"]) if "inject" in given else body.inject != "off",
        says_inject="inject" in given or body.inject is not None,
        contexts=tuple(dict.fromkeys(split_list(given["contexts"]) if "contexts" in given else body.contexts)),
        include=tuple(dict.fromkeys(split_list(given["include"]) if "include" in given else body.include)),
        exclude=frozenset(split_list(given["exclude"]) if "exclude" in given else body.exclude),
        pin=tuple(dict.fromkeys(split_list(given["pin"]) if "pin" in given else body.pin)),
        unpin=tuple(dict.fromkeys(split_list(given["unpin"]) if "unpin" in given else body.unpin)),
        selection=SelectionSettings.from_data(body.selection.model_dump()) if body.selection else SelectionSettings(),
        refs=body.refs,
        vars={name: format_variable(value) for name, value in body.vars.items()},
        hints=build_hints(body.hints) if body.hints else NO_HINTS,
        items=tuple(RequestItem(item.name, item.text) for item in body.items),
        said_in={name: f"x-context-{name}" for name in given},
    )


def build_hints(body: HintsBody) -> ContextHints:
    """Moments without an offset are UTC."""
    period = body.time_range or TimeRangeBody()

    def to_seconds(moment: datetime) -> float:
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()

    return ContextHints(
        prioritize_types=tuple(body.prioritize_types),
        since=to_seconds(period.start) if period.start is not None else -inf,
        until=to_seconds(period.end) if period.end is not None else inf,
        include=frozenset(body.include),
        exclude=frozenset(body.exclude),
        max_depth=body.max_depth,
    )


def parse_type(given: dict[str, str], body: ContextObject) -> str | None:
    """The type of the request, which decides over the shares of the budget."""
    said = given.get("type") or body.type or None
    if said is not None and said not in REQUEST_TYPES:
        param = "x-context-type" if given.get("type") else "context.type"
        raise InvalidRequest(f"{param} must be one of {', '.join(REQUEST_TYPES)}.", param=param)
    return said


def check_pins(given: dict[str, str], body: ContextObject) -> None:
    """Raise if the request would change a session and names none."""
    for name in SESSION_LISTS:
        if name not in given and not getattr(body, name):
            continue
        param = f"x-context-{name}" if name in given else f"context.{name}"
        if not given.get("session") and not body.session:
            raise SessionRequired(f"{param} changes the session: send x-context-session too.", param=param)


def parse_budget(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InvalidRequest("x-context-budget must be a non-negative integer.", param="x-context-budget")
    return int(text.lstrip("0")[:BUDGET_DIGITS] or 0)


def limit_budget(budget: int | None) -> int | None:
    return None if budget is None else min(budget, MAX_BUDGET)


def parse_switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise InvalidRequest("x-context-inject must be 'on' or 'off'.", param="x-context-inject")
    return text == "on"


def split_list(text: str) -> list[str]:
    if text.count(",") >= MOST_ENTRIES:
        raise InvalidRequest(f"A list in an x-context-* header has more than {MOST_ENTRIES} entries.")
    return [part.strip() for part in text.split(",") if part.strip()]


def format_variable(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


EMPTY_REQUEST = ContextRequest()
EMPTY_OBJECT = ContextObject.model_construct()


class LargeItem(msgspec.Struct, forbid_unknown_fields=True):
    """One of `items` in a large object."""

    name: str
    text: str


# Every key as it is written; an unknown one ends the decoding.
_Parts = msgspec.defstruct(
    "_Parts", [(name, Raw, Raw(b"")) for name in ContextObject.model_fields], forbid_unknown_fields=True
)
_decode_parts = msgspec.json.Decoder(_Parts).decode
_decode_items = msgspec.json.Decoder(list[LargeItem]).decode
_decode_variables = msgspec.json.Decoder(dict[str, str | int | float | bool]).decode
