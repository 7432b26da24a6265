"""Objects of a request of which every field has to be taken: what is left over is refused by name."""

import re
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

import msgspec
from msgspec import Raw

from gateway.errors import InvalidRequest
from gateway.upstreams.translation.uncarried import RequestPath

POSITION: Final = re.compile(r"\[\d+\]")
NULL: Final = b"null"
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
DIALECT_NAMES: Final = {"chat": "chat completions", "messages": "Anthropic's Messages", "responses": "Responses"}

T = TypeVar("T")

encode: Final = msgspec.json.Encoder().encode
_decode_object: Callable[[bytes], dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list: Callable[[bytes], list[Raw]] = msgspec.json.Decoder(list[Raw]).decode


class CarriedFields:
    """One object of a request. Values are taken one by one; `finish` refuses whatever nobody took."""

    __slots__ = ("_fields", "_route", "path")

    def __init__(self, raw: bytes | Raw, path: str, route: RequestPath) -> None:
        self.path, self._route = path, route
        try:
            self._fields = _decode_object(bytes(raw))
        except msgspec.ValidationError as fault:
            raise InvalidRequest(f"`{path or 'The body'}` must be an object.", param=path or None) from fault

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def name(self, field: str) -> str:
        """The path of one of its fields."""
        return f"{self.path}.{field}" if self.path else field

    def take_raw(self, name: str) -> Raw | None:
        """The bytes of a field; None if it is absent or null."""
        raw = self._fields.pop(name, None)
        return None if raw is None or bytes(raw) == NULL else raw

    def take(self, name: str, kind: type[T]) -> T | None:
        """The value of a field; raises InvalidRequest if it is of another kind."""
        raw = self.take_raw(name)
        if raw is None:
            return None
        try:
            return msgspec.json.decode(raw, type=kind)
        except msgspec.ValidationError as fault:
            raise InvalidRequest(f"`{self.name(name)}` has the wrong type: {fault}.", param=self.name(name)) from fault

    def require(self, name: str, kind: type[T]) -> T:
        value = self.take(name, kind)
        if value is None:
            raise InvalidRequest(f"`{self.name(name)}` is missing.", param=self.name(name))
        return value

    def require_raw(self, name: str) -> Raw:
        raw = self.take_raw(name)
        if raw is None:
            raise InvalidRequest(f"`{self.name(name)}` is missing.", param=self.name(name))
        return raw

    def take_rest(self) -> dict[str, Raw]:
        """All fields that nobody took, as they are."""
        rest, self._fields = self._fields, {}
        return rest

    def take_object(self, name: str) -> "CarriedFields | None":
        raw = self.take_raw(name)
        return None if raw is None else CarriedFields(raw, self.name(name), self._route)

    def take_objects(self, name: str) -> "list[CarriedFields]":
        """The objects of a list; none if it is absent."""
        raw = self.take_raw(name)
        return [] if raw is None else self.read_objects(name, raw)

    def read_objects(self, name: str, raw: Raw) -> "list[CarriedFields]":
        """The objects of a list that was taken already."""
        path = self.name(name)
        try:
            items = _decode_list(bytes(raw))
        except msgspec.ValidationError as fault:
            raise InvalidRequest(f"`{path}` must be an array.", param=path) from fault
        return [CarriedFields(item, f"{path}[{number}]", self._route) for number, item in enumerate(items)]

    def ignore(self, *names: str) -> None:
        """Leave out what changes no answer."""
        for name in names:
            self._fields.pop(name, None)

    def require_neutral(self, name: str, *neutral: Any) -> None:
        """Leave a field out if its value is what the target does anyway."""
        raw = self._fields.get(name)
        if raw is not None and msgspec.json.decode(raw) in (None, *neutral):
            del self._fields[name]

    def refuse(self, name: str = "") -> NoReturn:
        """Refuse a field, or the whole object."""
        path = self.name(name) if name else self.path
        reason = self._route.refused.get(POSITION.sub("[]", path))
        target = DIALECT_NAMES[self._route.target]
        raise InvalidRequest(
            f"`{path}` cannot be carried to this model, whose upstream speaks {target}"
            f"{f' ({reason})' if reason else ''}. Leave it out, or choose another model.",
            param=path,
        )

    def finish(self) -> None:
        """Refuse what is left."""
        for name, raw in self._fields.items():
            if bytes(raw) != NULL:
                self.refuse(name)


def is_string(raw: Raw) -> bool:
    return bytes(raw)[:1] == b'"'


def put(target: dict[str, Any], name: str, value: Any) -> None:
    """Set a field unless there is nothing to set."""
    if value is not None:
        target[name] = value
