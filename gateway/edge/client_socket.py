"""What asyncio does not tell of a client: how much it has taken, and that it left while nothing was read from it."""

import asyncio
import socket
import struct
from asyncio import TimerHandle
from collections.abc import Callable
from typing import Protocol

import msgspec
from uvicorn.protocols.http.flow_control import FlowControl

LOOK_SECONDS = 0.25  # between two looks whether a client has left while nothing is read from it
ESTABLISHED = 1  # linux/tcp_states.h
INFO_BYTES = 128  # of linux/tcp.h, `tcp_info`: its first byte is the state,
ACKNOWLEDGED = struct.Struct("@Q")  # its last eight are the bytes that the peer has acknowledged


class TcpState(msgspec.Struct, frozen=True):
    """A connection as the kernel sees it."""

    established: bool  # False: the client has closed it, even if there are bytes that nobody has read
    acknowledged: int  # bytes that the client's kernel has taken; once its buffer is full, only as fast as it reads


def read_tcp_state(transport: asyncio.Transport) -> TcpState | None:
    """None where the system does not tell: elsewhere than on Linux, or when the connection is gone."""
    try:
        info: bytes = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)
    except (AttributeError, OSError, ValueError):
        return None
    if len(info) < INFO_BYTES:
        return None
    return TcpState(info[0] == ESTABLISHED, *ACKNOWLEDGED.unpack_from(info, INFO_BYTES - ACKNOWLEDGED.size))


def count_taken(transport: asyncio.Transport) -> int:
    """A number that grows if the client takes what it is sent, and only then."""
    state = read_tcp_state(transport)
    # The rest in the transport shrinks, too, but only in large steps: the kernel's buffer is in between.
    return state.acknowledged if state is not None else -transport.get_write_buffer_size()


class ReadingObserver(Protocol):
    """Whoever must know whether a connection is being read."""

    def on_reading_paused(self) -> None: ...

    def on_reading_resumed(self) -> None: ...

    def on_client_left(self) -> None: ...


class ObservedFlow(FlowControl):
    """uvicorn's flow control, which tells when reading stops and goes on, and if the client leaves in between."""

    def __init__(self, transport: asyncio.Transport, observer: ReadingObserver) -> None:
        super().__init__(transport)
        self._observer = observer
        self._look: TimerHandle | None = None

    def pause_reading(self) -> None:
        if not self.read_paused:
            super().pause_reading()
            self._look_later()
            self._observer.on_reading_paused()

    def resume_reading(self) -> None:
        if self.read_paused:
            self.stop_looking()
            super().resume_reading()
            self._observer.on_reading_resumed()

    def stop_looking(self) -> None:
        """Called when the connection is lost, too."""
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _look_later(self) -> None:
        self._look = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look_for_client)

    def _look_for_client(self) -> None:
        state = read_tcp_state(self._transport)
        if state is None or state.established:
            self._look_later()
        else:
            self._look = None
            self._observer.on_client_left()


class WriteDeadline:
    """Drops a connection whose client takes nothing of what is written to it for a while; a slow one may be slow."""

    def __init__(self, transport: asyncio.Transport, seconds: float) -> None:
        self._transport, self._seconds = transport, seconds
        self._timer: TimerHandle | None = None
        self._taken = 0  # by the client, when the timer was started

    def start(self) -> None:
        """Start the clock, unless it is running."""
        if self._timer is None:
            self._taken = count_taken(self._transport)
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._check)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        before, self._timer = self._taken, None
        self.start()
        if self._taken <= before:
            self._transport.abort()


class ArrivalDeadline:
    """By when the head or the body at hand must be here; while nothing is read, the client cannot be late."""

    def __init__(self, expire: Callable[[], None]) -> None:
        self._expire = expire
        self._timer: TimerHandle | None = None
        self._left: float | None = None  # seconds, when reading was paused

    def start(self, seconds: float) -> None:
        """Start the clock, unless it is running."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._end)

    def stop(self) -> None:
        """What was awaited is here."""
        self._left = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def pause(self) -> None:
        if self._timer is not None:
            left = self._timer.when() - asyncio.get_running_loop().time()
            self.stop()
            self._left = max(left, 0)

    def resume(self, seconds: float | None) -> None:
        """Go on with what was left, else with so many seconds; None: nothing is awaited."""
        left = self._left if self._left is not None else seconds
        if left is not None:
            self.start(left)

    def _end(self) -> None:
        self._timer = None
        self._expire()
