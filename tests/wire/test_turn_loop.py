"""Own calls: run by the gateway, never seen by the client (DESIGN §3 rule 1)."""

from harness import STYLE, STYLE_RESULT, Client
from upstream import Upstream, call, say


async def test_our_tool_call_never_reaches_the_client(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(call("get_context_resource", resource_id=STYLE), say("Done."))
    reply = await gateway.chat("Tidy this", agent="editor", stream=stream)
    assert (reply.text, reply.tool_calls, reply.finish_reason) == ("Done.", [], "stop")
    assert b"get_context_resource" not in reply.raw
    asked, answered = upstream.requests[1]["messages"][-2:]
    assert asked["tool_calls"][0]["function"]["name"] == "get_context_resource"
    assert answered == {"role": "tool", "tool_call_id": asked["tool_calls"][0]["id"], "content": STYLE_RESULT}
