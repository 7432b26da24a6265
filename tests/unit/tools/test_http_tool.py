"""HTTP tools: what an endpoint may send, and what a model may pass to it."""

import pytest

from gateway.domain.agent import ToolPermission
from gateway.domain.tool import CallableTool, ToolEndpoint
from gateway.tools.caller import ToolCaller
from gateway.tools.http_tool import decode_body
from gateway.tools.servers import ToolServers


@pytest.mark.parametrize("charset", ["punycode", "idna", "unicode_escape", "utf-7", "zlib", "no such charset"])
def test_only_charsets_of_texts_count(charset: str) -> None:
    """80 kB take Python's punycode codec five seconds, on the event loop."""
    assert decode_body(b"abc-bbbb \\u0041 +AEE-", charset) == "abc-bbbb \\u0041 +AEE-"


@pytest.mark.parametrize(
    ("charset", "body"), [(None, "für".encode()), ("UTF-8", "für".encode()), ("iso-8859-1", "für".encode("latin-1"))]
)
def test_usual_charsets_are_read(charset: str | None, body: bytes) -> None:
    assert decode_body(body, charset) == "für"


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("value", ["123456789012345678901234567890", "[" * 400 + "]" * 400], ids=["large", "deep"])
async def test_arguments_that_cannot_be_sent_are_told_to_the_model(method: str, value: str) -> None:
    tool = CallableTool("f", ToolEndpoint(method, "https://example.com/f"))
    outcome = await ToolCaller(ToolServers()).call("w", tool, f'{{"a": {value}}}', ToolPermission.ALLOW)
    assert outcome.failed
    assert outcome.text.startswith("the arguments are not usable: ")
