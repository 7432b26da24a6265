"""Driving an exchange: calls upstream, runs our tools, hands the client's part on."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import NoReturn

import msgspec

from gateway.conversation.calls import OwnCall
from gateway.conversation.hidden_turns import HiddenTurn
from gateway.conversation.keepalive import Silence, comments_until
from gateway.conversation.loop import Finish, RunTools, Step, TurnLoop
from gateway.conversation.relay import is_events, is_json, judge, read_after_done, relayed
from gateway.conversation.reply_loop import ReplyLoop
from gateway.conversation.stream_loop import StreamLoop
from gateway.domain.exchange import Exchange, Reply
from gateway.domain.upstream import Upstream, UpstreamReply
from gateway.errors import UpstreamError, UpstreamInvalid, UpstreamTruncated

Sender = Callable[[bytes, bool], Awaitable[tuple[Upstream, UpstreamReply]]]  # body, whether it is the first turn


async def unexpected(_: object) -> NoReturn:
    raise AssertionError("a relay has neither tools to run nor turns to hide")


@dataclass(frozen=True, slots=True)
class Conversation:
    """One exchange with its three ways out: upstream, our tools, the store of hidden turns."""

    exchange: Exchange
    send: Sender
    run: Callable[[OwnCall], Awaitable[str]] = unexpected
    keep: Callable[[HiddenTurn], Awaitable[None]] = unexpected

    async def relay(self, body: bytes) -> Reply:
        """One call whose reply passes as it comes."""
        reply = await self._call(body)
        if not is_events(reply):
            return await whole(reply)
        try:
            first = await first_bytes(reply)
        except BaseException:
            await reply.close()
            raise
        return Reply(reply.status, reply.headers, stream=relayed(reply, first, self.exchange), close=reply.close)

    async def answer(self, loop: ReplyLoop) -> Reply:
        """Turns until there is one whole answer."""
        while True:
            reply = await self._call(loop.request())
            got = await whole(reply)
            if got.status >= 400:
                return got
            if not is_json(reply):
                raise UpstreamInvalid("The upstream streams although no stream was asked for.")
            step = await self._after(loop, self._take(loop, got.body))
            if isinstance(step, Finish):
                return Reply(got.status, got.headers, step.data)

    async def stream(self, loop: StreamLoop) -> Reply:
        """Turns as one stream; returns once the first turn's first bytes are there."""
        reply = await self._call(loop.request())
        if reply.status >= 400:
            return await whole(reply)
        try:
            if not is_events(reply):
                raise UpstreamInvalid("The upstream does not stream although a stream was asked for.")
            shown = loop.feed(await first_bytes(reply))
        except BaseException:
            await reply.close()
            raise
        return Reply(reply.status, reply.headers, stream=self._turns(loop, reply, shown), close=reply.close)

    async def _turns(self, loop: StreamLoop, reply: UpstreamReply, shown: bytes) -> AsyncGenerator[bytes]:
        silence = Silence()
        try:
            if shown:
                yield shown
            while True:
                async for data in self._read(loop, reply, silence):
                    yield data
                await reply.close()
                async for step in self._next(loop, silence):
                    if isinstance(step, bytes):
                        yield step
                    elif isinstance(step, Finish):
                        yield step.data
                        return
                    else:
                        reply = step
        finally:
            await reply.close()

    async def _read(self, loop: StreamLoop, reply: UpstreamReply, silence: Silence) -> AsyncGenerator[bytes]:
        """What the client sees of one turn, with comments while nothing of it may be shown."""
        while True:
            reading = read_after_done(reply) if loop.turn_done else reply.read()
            if loop.may_be_silent:
                task = asyncio.ensure_future(reading)
                async for comment in comments_until(task, silence):
                    yield comment
                chunk = task.result()
            else:
                chunk = await reading
            if not chunk:
                return
            if shown := loop.feed(chunk):
                yield shown
                silence.broken()

    async def _next(self, loop: StreamLoop, silence: Silence) -> AsyncGenerator[bytes | Finish | UpstreamReply]:
        """After a turn: comments while our tools run, then the end or the reply of the next turn."""
        task = asyncio.ensure_future(self._go_on(loop))
        try:
            async for comment in comments_until(task, silence):
                yield comment
        except BaseException:
            await close_unclaimed(task)
            raise
        yield task.result()

    async def _go_on(self, loop: StreamLoop) -> Finish | UpstreamReply:
        step = await self._after(loop, self._end(loop))
        if isinstance(step, Finish):
            return step
        reply = await self._call(loop.request())
        if reply.status >= 400:
            raise failure((await whole(reply)).body, reply.status)
        if not is_events(reply):
            await reply.close()
            raise UpstreamInvalid(f"The upstream stopped streaming in turn {loop.turns}.")
        return reply

    async def _call(self, body: bytes) -> UpstreamReply:
        """One upstream call; the reply is closed if it is refused."""
        exchange = self.exchange
        exchange.turns += 1
        upstream, reply = await self.send(body, exchange.turns == 1)
        exchange.upstream = upstream.name
        exchange.replies.append((upstream.name, reply.status))
        try:
            judge(upstream, reply)
        except BaseException:
            await reply.close()
            raise
        return reply

    async def _after(self, loop: TurnLoop, step: Step) -> Step:
        """Run our tools and keep what the client does not see."""
        if isinstance(step, RunTools):
            self.exchange.tools_run += (call.name for call in step.calls)
            step = loop.resume(await asyncio.gather(*map(self.run, step.calls)))
        if isinstance(step, Finish):
            self.exchange.usage = loop.usage
            if step.hidden is not None:
                await self.keep(step.hidden)
        return step

    def _take(self, loop: ReplyLoop, body: bytes) -> Step:
        try:
            return loop.take(body)
        finally:
            self._note_limit(loop)

    def _end(self, loop: StreamLoop) -> Step:
        if loop.failed:
            self.exchange.status = "error"
        try:
            return loop.end()
        finally:
            self._note_limit(loop)

    def _note_limit(self, loop: TurnLoop) -> None:
        if loop.limited:
            self.exchange.status = "loop_limit"


async def first_bytes(reply: UpstreamReply) -> bytes:
    """What a stream begins with; one that is over at once was none."""
    first = await reply.read()
    if not first:
        raise UpstreamTruncated("The upstream's stream ended before it began.")
    return first


async def whole(reply: UpstreamReply) -> Reply:
    """The reply with its whole body; the connection is given back."""
    try:
        return Reply(reply.status, reply.headers, await reply.read_all())
    finally:
        await reply.close()


def failure(body: bytes, status: int) -> UpstreamError:
    """An upstream's error reply in the middle of a stream, in its own words if it has any."""
    try:
        message = str(msgspec.json.decode(body)["error"]["message"])
    except (msgspec.MsgspecError, RecursionError, KeyError, TypeError):
        message = "no reason given"
    return UpstreamInvalid(f"The upstream failed in the middle of the answer (HTTP {status}): {message}")


async def close_unclaimed(task: asyncio.Task[Finish | UpstreamReply]) -> None:
    """The client left while the next turn's reply arrived: nobody else will close it."""
    if task.done() and not task.cancelled() and task.exception() is None:
        arrived = task.result()
        if not isinstance(arrived, Finish):
            await arrived.close()
