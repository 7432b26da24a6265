"""Driving an exchange: calls the upstream, runs our tools, passes the client's part on."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NoReturn

import msgspec

from gateway.conversation.dialect import Dialect
from gateway.conversation.hidden_turn import HiddenTurn
from gateway.conversation.hidden_turns import HIDDEN_TURN_SECONDS
from gateway.conversation.loop import FinishStep, RunToolsStep, Step, TurnLoop
from gateway.conversation.relay import (
    AFTER_ERROR_SECONDS,
    StreamPassage,
    check_reply,
    relay_events,
    send_bytes,
)
from gateway.conversation.reply_loop import ReplyLoop
from gateway.conversation.stream_loop import StreamLoop
from gateway.conversation.turn import FunctionCall
from gateway.domain.chat import ChatRequest, OutgoingBody
from gateway.domain.exchange import ClientWriter, Exchange, ExchangeStatus, Reply, TurnReply
from gateway.domain.tool_result import ToolResult
from gateway.domain.upstream import SendTurn, UpstreamReply, is_event_stream, is_json_reply
from gateway.errors import UpstreamError, UpstreamInvalid, UpstreamRateLimited, UpstreamTruncated


class ConversationTimings(msgspec.Struct, frozen=True):
    """Seconds that a conversation waits for something."""

    keepalive: float = 5.0  # without a byte for the client, after which a comment is sent
    after_error: float = AFTER_ERROR_SECONDS  # for the upstream to close a stream in which it told an error
    hidden_turns: float = HIDDEN_TURN_SECONDS  # for the client to return its tools' results


DEFAULT_TIMINGS = ConversationTimings()


class SilenceTimer:
    """How long the client has received nothing."""

    __slots__ = ("_last", "_limit")

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self.restart()

    def restart(self) -> None:
        self._last = time.monotonic()

    @property
    def remaining(self) -> float:
        """Seconds until a comment is due."""
        return max(0.0, self._last + self._limit - time.monotonic())


async def send_comments_until(
    task: asyncio.Future[Any], silence: SilenceTimer, writer: ClientWriter, comment: bytes
) -> None:
    """Keep-alive comments while a task runs; it is cancelled if nobody waits for it any more."""
    try:
        while not task.done():
            done, _ = await asyncio.wait({task}, timeout=silence.remaining)
            if not done:
                await send_bytes(writer, comment)
                silence.restart()
    finally:
        if not task.done():
            task.cancel()


async def refuse_call(_: object) -> NoReturn:
    raise AssertionError("a relay has neither tools to run nor turns to hide")


class Conversation(msgspec.Struct):
    """One exchange with what it needs: the upstream, our tools, the store of hidden turns."""

    exchange: Exchange
    dialect: Dialect
    send: SendTurn
    run: Callable[[FunctionCall], Awaitable[ToolResult]] = refuse_call
    keep: Callable[[HiddenTurn], Awaitable[None]] = refuse_call
    timings: ConversationTimings = DEFAULT_TIMINGS

    async def relay(self, body: bytes, request: ChatRequest, outgoing: OutgoingBody) -> Reply:
        """One call whose reply passes as it comes."""
        reply = await self._call_upstream(body)
        if reply.status >= 400:
            return await read_whole_reply(reply)
        if not is_event_stream(reply):
            here = reply.take_all()
            whole = Reply(reply.status, reply.headers, here) if here is not None else await read_whole_reply(reply)
            self.dialect.show_relayed(request, outgoing, whole)
            self.exchange.usage = whole.usage
            return whole
        try:
            first = await read_first_bytes(reply)
        except BaseException:
            await reply.close()
            raise
        relay = self.dialect.open_relay(request, outgoing)
        stream = partial(relay_events, reply, first, relay, self.exchange, self.timings.after_error)
        return Reply(reply.status, reply.headers, stream=stream, close=reply.close, render_failure=relay.render_error)

    async def answer(self, loop: ReplyLoop) -> Reply:
        """Turns until there is one whole answer."""
        while True:
            reply = await self._call_upstream(loop.build_request())
            whole = await read_whole_reply(reply)
            if whole.status >= 400:
                return whole
            if not is_json_reply(reply):
                raise UpstreamInvalid("The upstream sent a stream although none was requested.")
            step = await self._apply(loop, self._take_reply(loop, whole.body))
            if isinstance(step, FinishStep):
                return Reply(whole.status, whole.headers, step.data)

    async def stream(self, loop: StreamLoop) -> Reply:
        """Turns as one stream; returns once the first turn's first bytes are there."""
        reply = await self._call_upstream(loop.build_request())
        if reply.status >= 400:
            return await read_whole_reply(reply)
        try:
            if not is_event_stream(reply):
                raise UpstreamInvalid("The upstream did not stream although a stream was requested.")
            shown = loop.feed(await read_first_bytes(reply))
        except BaseException:
            await reply.close()
            raise
        stream = partial(self._stream_turns, loop, reply, shown)
        return Reply(reply.status, reply.headers, stream=stream, close=reply.close, render_failure=loop.render_error)

    async def _stream_turns(self, loop: StreamLoop, reply: UpstreamReply, shown: bytes, writer: ClientWriter) -> None:
        silence = SilenceTimer(self.timings.keepalive)
        try:
            await send_bytes(writer, shown)
            while True:
                pending = await self._pass_turn(loop, reply, writer, silence)
                step = await self._go_on(loop, pending, writer, silence)
                if isinstance(step, FinishStep):
                    self.exchange.complete = not loop.failed
                    writer.end(step.data)
                    await reply.finish()
                    return
                await reply.finish()
                reply = step
        finally:
            await reply.close()

    async def _pass_turn(
        self, loop: StreamLoop, reply: UpstreamReply, writer: ClientWriter, silence: SilenceTimer
    ) -> bytes:
        """What the client sees of one turn, until [DONE] or the end; returns the last of it, which is not sent yet."""
        passage = StreamPassage(reply, loop, writer)
        if await passage.run():
            return b""
        shown = passage.pending
        silence.restart()
        while True:
            if loop.turn_done:
                return shown
            if shown:
                await send_bytes(writer, shown)
                silence.restart()
            loop.raise_fault()
            chunk = await self._read_chunk(loop, reply, writer, silence)
            if not chunk:
                return b""
            shown = loop.feed(chunk)

    async def _read_chunk(
        self, loop: StreamLoop, reply: UpstreamReply, writer: ClientWriter, silence: SilenceTimer
    ) -> bytes:
        """More of a turn, with comments while nothing of it may be shown."""
        if not loop.may_be_silent:
            return await reply.read()
        task = asyncio.ensure_future(reply.read())
        await send_comments_until(task, silence, writer, self.dialect.keepalive)
        return task.result()

    async def _go_on(
        self, loop: StreamLoop, shown: bytes, writer: ClientWriter, silence: SilenceTimer
    ) -> FinishStep | UpstreamReply:
        """After a turn: the client's last bytes, or the reply of the next turn; comments while our tools run."""
        try:
            step = self._end_turn(loop)
        except BaseException:
            writer.write(shown)
            raise
        if isinstance(step, FinishStep) and step.hidden is None:
            self.exchange.usage = loop.usage
            return FinishStep(shown + step.data)
        await send_bytes(writer, shown)
        task = asyncio.ensure_future(self._start_next_turn(loop, step))
        try:
            await send_comments_until(task, silence, writer, self.dialect.keepalive)
        except BaseException:
            await close_unclaimed(task)
            raise
        return task.result()

    async def _start_next_turn(self, loop: StreamLoop, step: Step) -> FinishStep | UpstreamReply:
        step = await self._apply(loop, step)
        if isinstance(step, FinishStep):
            return step
        reply = await self._call_upstream(loop.build_request())
        if reply.status >= 400:
            raise build_stream_failure((await read_whole_reply(reply)).body, reply.status)
        if not is_event_stream(reply):
            await reply.close()
            raise UpstreamInvalid(f"The upstream stopped streaming in turn {loop.turns}.")
        return reply

    async def _call_upstream(self, body: bytes) -> UpstreamReply:
        """One upstream call; the reply is closed if it is refused."""
        exchange = self.exchange
        exchange.turns += 1
        began = time.perf_counter()
        answer = await self.send(body, exchange.turns == 1)
        upstream, reply = answer.upstream, answer.reply
        exchange.upstream = upstream.name
        exchange.replies.append(TurnReply(upstream.name, reply.status, time.perf_counter() - began))
        try:
            check_reply(upstream, reply)
        except BaseException:
            await reply.close()
            raise
        return reply

    async def _apply(self, loop: TurnLoop, step: Step) -> Step:
        """Run our tools and store what the client does not see."""
        if isinstance(step, RunToolsStep):
            self.exchange.tools_run += (call.name for call in step.calls)
            step = loop.resume(await asyncio.gather(*map(self.run, step.calls)))
        if isinstance(step, FinishStep):
            self.exchange.usage = loop.usage
            if step.hidden is not None:
                await self.keep(step.hidden)
        return step

    def _take_reply(self, loop: ReplyLoop, body: bytes) -> Step:
        try:
            return loop.take(body)
        finally:
            self._note_limit(loop)

    def _end_turn(self, loop: StreamLoop) -> Step:
        if loop.failed:
            self.exchange.status = ExchangeStatus.ERROR
        try:
            return loop.end()
        finally:
            self._note_limit(loop)

    def _note_limit(self, loop: TurnLoop) -> None:
        self.exchange.usages = loop.usages
        if loop.limited:
            self.exchange.status = ExchangeStatus.LOOP_LIMIT


async def read_first_bytes(reply: UpstreamReply) -> bytes:
    """What a stream begins with; one that ends at once was none."""
    first = await reply.read()
    if not first:
        raise UpstreamTruncated("The upstream's stream ended before it began.")
    return first


async def read_whole_reply(reply: UpstreamReply) -> Reply:
    """The reply with its whole body; the connection is released."""
    try:
        return Reply(reply.status, reply.headers, await reply.read_all())
    finally:
        await reply.close()


def build_stream_failure(body: bytes, status: int) -> UpstreamError:
    """An upstream's error reply in the middle of a stream, with its own message if it has one."""
    try:
        message = str(msgspec.json.decode(body)["error"]["message"])
    except (msgspec.MsgspecError, RecursionError, KeyError, TypeError):
        message = "no reason given"
    failure = UpstreamRateLimited if status == 429 else UpstreamInvalid
    return failure(f"The upstream failed in the middle of the answer (HTTP {status}): {message}")


async def close_unclaimed(task: asyncio.Task[FinishStep | UpstreamReply]) -> None:
    """The client left while the next turn's reply arrived: nobody else will close it."""
    if task.done() and not task.cancelled() and task.exception() is None:
        arrived = task.result()
        if not isinstance(arrived, FinishStep):
            await arrived.close()
