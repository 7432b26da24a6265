"""What the bytes of a reply say: its usage and its text. Read off the request's path, and never a reason to fail."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from gateway import sse
from gateway.domain.exchange import Exchange, Reply

SMALL_REPLY = (
    8 * 1024
)  # bytes of a reply that is read at once: to hold it until somebody looks for its usage costs more
TEXT_DELTA = "response.output_text.delta"
USAGE = b'"usage"'
USAGE_KEY = b',"usage":'
BROKEN = (msgspec.MsgspecError, UnicodeError, RecursionError)


class ReplyDelta(msgspec.Struct):
    """The part of a message that holds text."""

    content: Any = None


class ReplyChoice(msgspec.Struct):
    """A choice of a whole reply, or of an event."""

    message: ReplyDelta | None = None
    delta: ReplyDelta | None = None


class ReportedResponse(msgspec.Struct):
    """The response that an event carries."""

    usage: dict[str, Any] | None = None


class BegunMessage(msgspec.Struct):
    """What Anthropic's first event says of a message."""

    usage: dict[str, Any] | None = None


class ReportedUsage(msgspec.Struct):
    """A reply or an event without its text."""

    usage: dict[str, Any] | None = None
    response: ReportedResponse | None = None
    message: BegunMessage | None = None


class OutputMessage(msgspec.Struct):
    """An item of a response, as far as it is text."""

    content: Any = None


class ReportedText(msgspec.Struct):
    """A reply or an event without anything but its text."""

    choices: list[ReplyChoice] = []
    output: list[OutputMessage] = []  # of a response
    content: Any = None  # of a whole message of Anthropic's
    type: str = ""
    delta: Any = None  # of an event of either


Reported = TypeVar("Reported")

_usage = msgspec.json.Decoder(ReportedUsage)
_text = msgspec.json.Decoder(ReportedText)
_decode_usage = _usage.decode


def note_usage(exchange: Exchange, reply: Reply) -> None:
    """Read the usage of a small whole reply for log and receipt, now that it is in the CPU's cache."""
    if exchange.usage is None and len(reply.body) <= SMALL_REPLY:
        exchange.usage = read_usage(reply.body)


def read_usage(reply: bytes) -> dict[str, Any] | None:
    """The usage that a reply or the events of a stream report last."""
    if reply[:1] == b"{":
        # Most replies have their usage behind their text, which then need not be looked at. What is behind a key of
        # the outermost object is that object without its begin. Inside of texts a backslash comes before each quote.
        at = reply.rfind(USAGE_KEY)
        if at > 0:
            try:
                usage = _decode_usage(b"{" + reply[at + 1 :]).usage
                if usage:
                    return usage
            except BROKEN:  # the key of an inner object
                pass
        try:
            usage = _decode_usage(reply).usage
        except BROKEN:
            return None
        if usage:
            return usage
    found: dict[str, Any] = {}
    for document in _read_documents(reply, _usage, USAGE):
        usage = document.usage
        if not usage:
            begun = document.message.usage if document.message else None
            ended = document.response.usage if document.response else None
            usage = begun or ended
        if usage:
            found = found | usage if found else usage  # counts of a later event are totals
    return found or None


def read_answer(reply: bytes) -> str:
    """The text of the first choice, or of all messages, joined if it came in pieces."""
    return "".join(map(_read_text, _read_documents(reply, _text)))


def _read_text(reported: ReportedText) -> str:
    if reported.choices:
        return _read_content(reported.choices[0])
    if reported.type == TEXT_DELTA:
        return reported.delta if isinstance(reported.delta, str) else ""
    if reported.output:
        return "".join(_join_parts(item.content) for item in reported.output)
    blocks = reported.content if isinstance(reported.content, list) else [reported.delta]
    texts = (one.get("text") for one in blocks if isinstance(one, dict) and one.get("type") in ("text", "text_delta"))
    return "".join(text for text in texts if isinstance(text, str))


def _read_documents(reply: bytes, decoder: msgspec.json.Decoder[Reported], mark: bytes = b"") -> list[Reported]:
    """What a document or the events with this mark say."""
    payloads: Sequence[bytes] = (reply,)
    if not reply.startswith(b"{") and reply.lstrip()[:1] != b"{":
        marked = [event for event in sse.split_events(reply) if mark in event]
        payloads = [payload for event in marked if (payload := sse.read_payload(event))]
    found = []
    for payload in payloads:
        try:
            found.append(decoder.decode(payload))
        except BROKEN:
            continue
    return found


def _read_content(choice: ReplyChoice) -> str:
    part = choice.message or choice.delta
    return _join_parts(part.content if part is not None else None)


def _join_parts(content: Any) -> str:
    if isinstance(content, list):
        content = "".join(one["text"] for one in content if isinstance(one, dict) and isinstance(one.get("text"), str))
    return content if isinstance(content, str) else ""
