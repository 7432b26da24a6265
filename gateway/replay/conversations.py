"""Conversations to replay: a file of messages or requests, or the receipts of a session."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from gateway.errors import InvalidRequest

MAX_REQUESTS = 500
MAX_BYTES = 20_000_000

ChatBody = dict[str, Any]


def read_conversation(path: Path) -> list[ChatBody]:
    """The requests of a conversation, oldest first; raises InvalidRequest for a file that has none.

    The file is a JSON array of messages, an object with `messages`, or JSON lines, each a message or a whole request.
    Of messages, every user message makes a request with all that was said before it.
    """
    if path.stat().st_size > MAX_BYTES:
        raise InvalidRequest(f"{path} has more than {MAX_BYTES // 10**6} MB.")
    entries = parse_entries(path.read_bytes(), str(path))
    requests = [entry for entry in entries if "messages" in entry]
    if requests and len(requests) < len(entries):
        raise InvalidRequest(f"{path}: messages and whole requests cannot be mixed.")
    if len(requests) == 1:
        requests = split_request(requests[0])
    return check_requests(requests or split_request({"messages": entries}), str(path))


def parse_entries(raw: bytes, name: str) -> list[dict[str, Any]]:
    """The messages or requests of a file."""
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError:
        data = [parse_line(line, f"{name}:{number}") for number, line in enumerate(raw.splitlines(), 1) if line.strip()]
    entries = data if isinstance(data, list) else [data]
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict) or ("messages" not in entry and "role" not in entry):
            raise InvalidRequest(f"{name}: entry {number} is neither a message nor a request.")
    return entries


def parse_line(line: bytes, place: str) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"{place}: not valid JSON: {error}.") from error


def split_request(request: ChatBody) -> list[ChatBody]:
    """A request for every user message of one, with all that was said before."""
    messages = request["messages"]
    if not isinstance(messages, list) or not all(isinstance(one, dict) for one in messages):
        raise InvalidRequest("`messages` must be an array of objects.")
    ends = [place + 1 for place, message in enumerate(messages) if message.get("role") == "user"]
    return [{**request, "messages": messages[:end]} for end in ends]


def read_receipts(receipts: Sequence[dict[str, Any]]) -> list[ChatBody]:
    """The requests of a session's receipts, oldest first; raises InvalidRequest if one of them holds no text."""
    requests = []
    for receipt in receipts:
        text = receipt.get("text") or {}
        if not text.get("request") or text.get("truncated"):
            raise InvalidRequest(f"Receipt {receipt['id']} does not hold its request; receipts.text keeps them.")
        try:
            body = orjson.loads(text["request"])
        except orjson.JSONDecodeError as error:  # upstreams may take larger numbers and more levels
            raise InvalidRequest(f"The request in receipt {receipt['id']} cannot be read: {error}.") from error
        body.pop("context", None)
        requests.append(body)
    return check_requests(requests, "The session")


def check_requests(requests: list[ChatBody], name: str) -> list[ChatBody]:
    if len(requests) < 2:
        raise InvalidRequest(f"{name} has fewer than two requests: there is nothing to compare.")
    if len(requests) > MAX_REQUESTS:
        raise InvalidRequest(f"{name} has more than {MAX_REQUESTS} requests.")
    return requests
