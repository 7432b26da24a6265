"""The hostile tenant, in a process of its own: every attack at once, until it is stopped.

Its own work yields to that of the gateway (nice 19): what is measured is what the gateway lets it take.
"""

import asyncio
import os
import random
import sys
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from scripts.chaos_run.stage import ACTIONS, HOSTILE, MODELS, TOPICS, make_resources

ATTACKS = {  # on so many connections
    "ask_new_question": 12,
    "ask_nastily": 1,
    "send_big_body": 1,
    "ask_in_many_scopes": 1,
    "ask_for_nobody": 1,
    "abort_stream": 1,
    "edit_policies": 1,
    "upload": 2,
    "flood_links": 1,
    "refresh_link": 1,
    "trickle_body": 1,
}
PAUSE = 0.02  # after an attack that was refused at once
NASTY = ("-", "a. ", "[", "<", "\n", "9", "\N{FULLWIDTH LATIN SMALL LETTER A}", "<<<", "ab\n", "<|im_start|>")
BIG_BYTES = 3_000_000


@dataclass(slots=True)
class HostileTenant:
    """Attacks with its own keys, its own policies and its own web server."""

    address: str
    web: str
    dice: random.Random
    session: aiohttp.ClientSession

    def list_attacks(self, only: Collection[str]) -> list[Callable[[], Awaitable[None]]]:
        """Every attack on its connections, or those with these names."""
        return [
            getattr(self, name) for name, count in ATTACKS.items() if not only or name in only for _ in range(count)
        ]

    async def run(self, only: Collection[str] = ()) -> None:
        async with asyncio.TaskGroup() as attacks:
            for attack in self.list_attacks(only):
                attacks.create_task(self._repeat(attack))

    async def _repeat(self, attack: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await attack()
            except (aiohttp.ClientError, OSError, TimeoutError):
                await asyncio.sleep(PAUSE)

    async def ask_new_question(self) -> None:
        sentences = [
            f"How do I {self.dice.choice(ACTIONS)} {self.dice.choice(TOPICS)} number {self.dice.random()}?"
            for _ in range(self.dice.choice((1, 5, 40)))
        ]
        await self._chat(" ".join(sentences))

    async def ask_nastily(self) -> None:
        await self._chat(self.dice.choice(NASTY) * self.dice.choice((1_000, 20_000)) + str(self.dice.random()))

    async def send_big_body(self) -> None:
        await self._chat("word " * (BIG_BYTES // 5) + str(self.dice.random()))
        await asyncio.sleep(0.2)

    async def ask_in_many_scopes(self) -> None:
        names = [f"help/{name}" for name in make_resources("")]
        await self._chat("What?", exclude=",".join(self.dice.sample(names, 20)), budget=str(self.dice.randint(1, 9999)))

    async def ask_for_nobody(self) -> None:
        await self._chat("Who?", agent=f"nobody-{self.dice.random()}" * self.dice.choice((1, 200)))

    async def abort_stream(self) -> None:
        body = {
            "model": MODELS[HOSTILE],
            "stream": True,
            "messages": [{"role": "user", "content": f"{self.dice.random()}"}],
        }
        async with self.session.post(f"{self.address}/v1/chat/completions", json=body, headers=self._head()) as reply:
            await reply.content.readany()
            reply.close()

    async def trickle_body(self) -> None:
        target = urlsplit(self.address)
        _, writer = await asyncio.open_connection(target.hostname, target.port)
        try:
            writer.write(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer hostile-chat\r\n"
            )
            writer.write(b"content-type: application/json\r\ncontent-length: 100000\r\n\r\n")
            for _ in range(20):
                writer.write(b'{"a')
                await writer.drain()
                await asyncio.sleep(0.05)
        finally:
            writer.close()

    async def edit_policies(self) -> None:
        page = f"<p>{self.dice.random()}" + self.dice.choice(NASTY) * 20_000
        document = {"type": "document", "mode": "on_demand", "data": {"content": page, "mime_type": "text/html"}}
        await self._manage("PUT", "/contexts/help", {"resources": {**make_resources("hostile"), "page": document}})

    async def upload(self) -> None:
        head = self.dice.choice((b"%PDF-1.4\n", b"<html><a ", b"PK\x03\x04"))
        content = head + str(self.dice.random()).encode() + self.dice.choice((b"<a ", b"<", b"[1 ")) * 100_000
        kind = "application/pdf" if head.startswith(b"%PDF") else "text/html"
        headers = {"authorization": f"Bearer {HOSTILE}-admin", "content-type": kind}
        async with self.session.post(f"{self.address}/api/v1/documents", data=content, headers=headers) as reply:
            await reply.read()

    async def flood_links(self) -> None:
        links = {
            f"l{number}": {"type": "external-link", "data": {"url": f"{self.web}/{self.dice.random()}"}}
            for number in range(100)
        }
        await self._manage("POST", "/contexts", {"alias": "links", "resources": links})
        await self._manage("PUT", "/contexts/links", {"resources": links})

    async def refresh_link(self) -> None:
        await self._manage("POST", "/contexts/links/resources/l1/refresh", None)
        await asyncio.sleep(PAUSE)

    async def _chat(self, text: str, **context: str) -> None:
        body = {"model": MODELS[HOSTILE], "messages": [{"role": "user", "content": text}]}
        async with self.session.post(
            f"{self.address}/v1/chat/completions", json=body, headers=self._head(**context)
        ) as reply:
            await reply.read()
        if reply.status >= 400:
            await asyncio.sleep(PAUSE)

    def _head(self, **context: str) -> dict[str, str]:
        named = {f"x-context-{name}": value for name, value in {"agent": "support", **context}.items()}
        return {"authorization": f"Bearer {HOSTILE}-chat", **named}

    async def _manage(self, method: str, path: str, body: Any) -> None:
        headers = {"authorization": f"Bearer {HOSTILE}-admin"}
        async with self.session.request(method, f"{self.address}/api/v1{path}", json=body, headers=headers) as reply:
            await reply.read()
        if reply.status >= 400:
            await asyncio.sleep(PAUSE)


async def main(address: str, web: str, seed: int, only: Collection[str]) -> None:
    connector = aiohttp.TCPConnector(limit=200)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60)) as session:
        print("attacking", flush=True)
        await HostileTenant(address, web, random.Random(seed), session).run(only)


if __name__ == "__main__":
    os.nice(19)
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]))
