"""What a conversation asks just now."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from gateway.domain.search import Question

EARLIER = 3  # user texts that may help to understand a short follow-up


class _Message(msgspec.Struct):
    role: str = ""
    content: Any = None


_message = msgspec.json.Decoder(_Message)


def question_of(messages: Sequence[Raw]) -> Question | None:
    """The last user text with the ones before it; None if the user has said nothing."""
    texts: list[str] = []
    for message in reversed(messages):
        text = user_text(message)
        if text:
            texts.append(text)
        if len(texts) > EARLIER:
            break
    return Question(texts[0], tuple(texts[1:])) if texts else None


def user_text(message: Raw) -> str:
    """The text of a user's message; "" for everything else."""
    try:
        read = _message.decode(message)
    except (msgspec.MsgspecError, RecursionError):
        return ""  # its shape is the upstream's business
    if read.role != "user":
        return ""
    if isinstance(read.content, str):
        return read.content.strip()
    parts = read.content if isinstance(read.content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str)).strip()
