"""Asking a gateway in any dialect, for suites that run in all of them."""

from typing import Any

import orjson

from tests.support.gateway import STYLE, Client, ClientReply
from tests.support.spoken import Entry, Spoken, Understood
from tests.support.upstream import Upstream, tool_call

ASKED = Entry("user", "Tidy this")
OWN = tool_call("get_context_resource", "own", resource_id=STYLE)
OSLO, ROME = tool_call("get_weather", "oslo", city="Oslo"), tool_call("get_weather", "rome", city="Rome")


class Caller:
    """Asks one gateway in one dialect and one form."""

    def __init__(self, gateway: Client, spoken: Spoken, stream: bool) -> None:
        self.gateway, self.spoken, self.stream = gateway, spoken, stream

    async def send(self, *entries: Entry, agent: str = "editor", session: str = "", **options: Any) -> ClientReply:
        body = self.spoken.write(entries or [ASKED], stream=self.stream, **options)
        headers = {"x_context_agent": agent} | ({"x_context_session": session} if session else {})
        return await self.gateway.post(orjson.dumps(body), path=self.spoken.path, **headers)

    async def ask(self, *entries: Entry, **options: Any) -> Understood:
        return self.understand(await self.send(*entries, **options))

    def understand(self, reply: ClientReply) -> Understood:
        return (self.spoken.read_stream if reply.streamed else self.spoken.read_whole)(reply.raw)


def sent(upstream: Upstream, spoken: Spoken, number: int = -1) -> list[Entry]:
    """What a request to the upstream says."""
    return spoken.read_request(upstream.requests[number])


def called(one: dict[str, Any]) -> Entry:
    return Entry("call", one["function"]["arguments"], one["id"], one["function"]["name"])
