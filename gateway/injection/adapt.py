"""What some upstreams want differently: a cache marker, or no developer role."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from gateway.injection.place import parts_of, role_of

MARK = b'","cache_control":{"type":"ephemeral"}}'
OPEN_PART = b'{"type":"text","text":"'

_object = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.Encoder().encode


def with_cache_marker(messages: Sequence[Raw], stable: bytes) -> list[Raw]:
    """The messages with a part that ends where the stable block ends, marked for Anthropic's prompt cache."""
    marked = list(messages)
    for position, message in enumerate(messages):
        if stable not in bytes(message):
            continue
        fields = _object.decode(message)
        content = bytes(fields["content"])
        parts = [Raw(OPEN_PART + content[1:-1] + b'"}')] if content[:1] == b'"' else parts_of(content)
        fields["content"] = Raw(_encode([piece for part in parts for piece in split_after(part, stable)]))
        marked[position] = Raw(_encode(fields))
        break
    return marked


def split_after(part: Raw, stable: bytes) -> list[Raw]:
    """A text part cut after the stable block, the first piece marked; any other part as it is."""
    before, found, after = bytes(part).partition(stable)
    if not found:
        return [part]
    rest = after.removesuffix(b'"}').removeprefix(rb"\n\n")
    pieces = [Raw(before + stable + MARK)]
    return [*pieces, Raw(OPEN_PART + rest + b'"}')] if rest else pieces


def without_developer(messages: Sequence[Raw]) -> list[Raw]:
    """The messages with system instead of developer, for upstreams that do not know that role."""
    return [as_system(message) if role_of(message) == "developer" else message for message in messages]


def as_system(message: Raw) -> Raw:
    return Raw(_encode(_object.decode(message) | {"role": "system"}))
