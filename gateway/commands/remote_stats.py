"""The figures of a running gateway, asked through its management API."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import orjson

from gateway.commands.stored_stats import StatsQuestion
from gateway.errors import InvalidRequest, ServiceUnavailable

SECONDS = 30.0
PATHS = {"summary": ""}
FILTERS = {
    "summary": ("agent", "model"),
    "quality": ("agent", "model"),
    "resources": ("agent", "context"),
}


def ask_gateway(url: str, key_file: Path | None, question: StatsQuestion) -> dict[str, Any]:
    """The reply to a question; raises InvalidRequest or ServiceUnavailable with what the gateway said."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise InvalidRequest("Write --url as http://127.0.0.1:8080.")
    headers = {"accept": "application/json"}
    if key_file is not None:
        headers["authorization"] = f"Bearer {key_file.read_text(encoding='utf-8').strip()}"
    target = f"{url.rstrip('/')}/api/v1/stats{PATHS.get(question.view, '/' + question.view)}?{build_query(question)}"
    try:
        # No proxy: the address is the gateway's own.
        with build_opener(ProxyHandler({})).open(Request(target, headers=headers), timeout=SECONDS) as reply:
            found: dict[str, Any] = orjson.loads(reply.read())
            return found
    except HTTPError as error:
        raise InvalidRequest(f"The gateway refused it: {_read_detail(error)}") from None
    except (URLError, OSError, orjson.JSONDecodeError) as error:
        raise ServiceUnavailable(f"The gateway at {url} does not answer ({error}).") from None


def build_query(question: StatsQuestion) -> str:
    asked: dict[str, str] = {}
    for name, seconds in (("from", question.begin), ("to", question.end)):
        if seconds is not None:
            asked[name] = datetime.fromtimestamp(seconds, UTC).isoformat()
    for name in FILTERS.get(question.view, ()):
        value = question.filters.get(name)
        if value is not None:
            asked[name] = value
    if question.view in ("summary", "quality"):
        asked["bucket"] = question.bucket
    elif question.view != "cache":
        asked["take"] = str(question.take)
    if question.view == "resources":
        asked["sort"] = question.sort
    return urlencode(asked)


def _read_detail(error: HTTPError) -> str:
    try:
        said = orjson.loads(error.read())
        return str(said.get("detail") or said["error"]["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return f"HTTP {error.code}"
