"""What the connection adds to uvicorn's requests: quiet ends, and ends while a body is on its way."""

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from gateway.edge.errors import BrokenResponse


async def serve_until_gone(
    cycle: RequestResponseCycle, app: ASGIApp, scope: Scope, receive: Receive, send: Send
) -> None:
    """Run the app; end quietly if it was cancelled because its client disconnected, or if its response failed."""
    try:
        await app(scope, receive, send)
    except asyncio.CancelledError:
        if not cycle.disconnected:
            raise
    except BrokenResponse:
        cycle.disconnected = True
        cycle.transport.close()


def watch_early_end(cycle: RequestResponseCycle, app: ASGIApp, end_early: Callable[[bool], bool]) -> ASGIApp:
    """`app`; `end_early` is asked if its response ends the connection, perhaps while the body is still on its way.

    uvicorn would close at once, so that a reset could overtake the answer; and it would go on with a client that was
    answered before it sent what it announced, and that may or may not send it now.
    """

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        async def watch(message: Message) -> None:
            ends = not cycle.keep_alive or (cycle.waiting_for_100_continue and cycle.more_body)
            if ends and message["type"] == "http.response.start" and end_early(cycle.more_body):
                await send({**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]})
                cycle.keep_alive = True  # the end is no longer up to uvicorn
            else:
                await send(message)

        await app(scope, receive, watch)

    return serve
