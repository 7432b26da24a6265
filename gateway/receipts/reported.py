"""What the bytes of a reply say: its usage and its text. Read off the request's path, and never a reason to fail."""

from typing import Any, TypeVar

import msgspec

from gateway import sse


class ReplyDelta(msgspec.Struct):
    """The part of a message that holds text."""

    content: Any = None


class ReplyChoice(msgspec.Struct):
    """A choice of a whole reply, or of an event."""

    message: ReplyDelta | None = None
    delta: ReplyDelta | None = None


class ReportedUsage(msgspec.Struct):
    """A reply or an event without its text."""

    usage: dict[str, Any] | None = None


class ReportedText(msgspec.Struct):
    """A reply or an event without anything but its text."""

    choices: list[ReplyChoice] = []


Reported = TypeVar("Reported")

_usage = msgspec.json.Decoder(ReportedUsage)
_text = msgspec.json.Decoder(ReportedText)


def read_usage(reply: bytes) -> dict[str, Any] | None:
    """The usage that a reply or the events of a stream report last."""
    found = None
    for document in _read_documents(reply, _usage):
        found = document.usage or found
    return found


def read_answer(reply: bytes) -> str:
    """The text of the first choice, joined if it came in pieces."""
    return "".join(_read_content(one.choices[0]) for one in _read_documents(reply, _text) if one.choices)


def _read_documents(reply: bytes, decoder: msgspec.json.Decoder[Reported]) -> list[Reported]:
    if reply[:1] == b"{" or reply.lstrip()[:1] == b"{":
        payloads = [reply]
    else:
        payloads = [payload for event in sse.split_events(reply) if (payload := sse.read_payload(event))]
    found = []
    for payload in payloads:
        try:
            found.append(decoder.decode(payload))
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue
    return found


def _read_content(choice: ReplyChoice) -> str:
    part = choice.message or choice.delta
    content = part.content if part is not None else None
    if isinstance(content, list):
        content = "".join(one["text"] for one in content if isinstance(one, dict) and isinstance(one.get("text"), str))
    return content if isinstance(content, str) else ""
