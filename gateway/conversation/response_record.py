"""What is kept of a response that its client may come back to."""

import msgspec
from msgspec import Raw

RECORD_BYTES = 1000  # of a record besides what was said: names, ids, brackets, its own overhead
GONE = b"-"  # what stands for a deleted response until it would have expired
SAME_ID = "="  # the upstream keeps a response under the id that the client knows, so that many have the same record
NULL = Raw(b"null")


class ResponseRecord(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of a response."""

    model: str  # that was sent
    native: str  # id under which the upstream keeps it itself, or SAME_ID; "": the gateway keeps it
    pending: tuple[Raw, ...] = ()  # results of our calls that the upstream has not got yet
    shown: Raw = NULL  # as the client saw it; null: the upstream's is the same
    input: tuple[Raw, ...] | None = None  # items that the client sent; None: the upstream has the same
    added: tuple[Raw, ...] = ()  # what followed them, hidden turns included
    earlier: tuple[str, ...] = ()  # ids of the responses before it, oldest first
    told: tuple[tuple[int, tuple[str, ...]], ...] = ()  # ids of resources, by position in `added`, else in `pending`
    known: tuple[str, ...] = ()  # ids of resources that the upstream's copy of the conversation tells of
    echoed: dict[str, Raw] | None = None  # fields of the request that the client saw in the upstream's response

    @property
    def is_shown_upstream(self) -> bool:
        return bytes(self.shown) == b"null"

    @property
    def is_relayed(self) -> bool:
        """Whether the client saw what the upstream has."""
        return self.is_shown_upstream and self.echoed is None

    @property
    def size(self) -> int:
        """The bytes of what client and model said, and of what the client saw, fields that it sent included."""
        return sum(len(memoryview(one)) for one in (self.shown, *(self.input or ()), *self.added))

    def list_output(self) -> list[Raw]:
        """The items that the client saw, as far as the gateway has them."""
        return [] if self.is_shown_upstream else _decode_shown(self.shown).output


class _ShownResponse(msgspec.Struct):
    output: list[Raw] = []


encode_record = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ResponseRecord).decode
_decode_shown = msgspec.json.Decoder(_ShownResponse).decode


def decode_record(data: bytes | None, identity: str = "") -> ResponseRecord | None:
    """What is kept under this id; None if that is nothing."""
    if data is None or data == GONE:
        return None
    try:
        record = _decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return msgspec.structs.replace(record, native=identity) if record.native == SAME_ID else record
