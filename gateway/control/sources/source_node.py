"""A node as a source describes it, and how names become keys."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Protocol

import msgspec
from pydantic import ValidationError

from gateway.control.object_bodies import make_node_body
from gateway.errors import Fault
from gateway.policies.shapes import StoredNodeShape, find_node_key_fault, find_reader_fault

MAX_ID = 512
LONGEST_KEY = 64

_OTHER = re.compile(r"[^a-z0-9_.]+")


class SourceNode(msgspec.Struct, frozen=True):
    """A node that is to be stored, in the form of its record."""

    id: str
    body: Mapping[str, Any]
    file: str
    line: int = 1

    def fault(self, message: str) -> Fault:
        return Fault(self.file, self.line, self.id, message)


class ContentSource(Protocol):
    """Something that nodes are imported from; it can be read more than once."""

    def read(self) -> Iterator[SourceNode | Fault]:
        """Every node after its parent, and every fault."""
        ...


def make_key(name: str) -> str:
    """The key that a name suggests: lower case, without accents; a hash stands for letters that keys cannot have."""
    name = name[: 4 * LONGEST_KEY]
    plain = unicodedata.normalize("NFKD", name)
    kept = plain.encode("ascii", "ignore").decode().lower()
    key = _OTHER.sub("-", kept).strip("-.")[:LONGEST_KEY].strip("-")
    if any(letter.isalnum() and not letter.isascii() for letter in plain):
        digits = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        key = f"{key[: LONGEST_KEY - 9]}-{digits}" if key else digits
    return key


def check_node(id: str, data: Mapping[str, Any], file: str, line: int) -> Iterator[SourceNode | Fault]:
    """The node, or what is wrong with it."""
    if not 0 < len(id) <= MAX_ID:
        yield Fault(file, line, "id", f"must be text of 1 to {MAX_ID} characters")
        return
    try:
        shape = StoredNodeShape.model_validate(data)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            yield Fault(file, line, ".".join(map(str, detail["loc"])) or "(node)", detail["msg"])
        return
    fault = find_node_key_fault(shape.key or "")
    wrong = [fault] if fault else []
    wrong += [found for name in shape.readers if (found := find_reader_fault(name)) is not None]
    yield from (Fault(file, line, "key" if one is fault else "readers", one) for one in wrong)
    if not wrong:
        yield SourceNode(id, make_node_body(shape.model_dump()), file, line)
