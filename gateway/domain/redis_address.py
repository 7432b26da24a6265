"""Where a Redis server is, and how to log in to it."""

from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

SCHEMES = frozenset({"redis", "rediss", "unix"})
PORT = 6379
FORM = "redis://[:password@]host[:port][/database], rediss:// for TLS, or unix:///path/of.sock[?db=number]"


class RedisAddress(msgspec.Struct, frozen=True):
    """One server and one of its databases; neither `str` nor `repr` tells a credential."""

    scheme: str
    host: str  # empty for a socket file
    port: int
    path: str  # of the socket file
    database: int
    username: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"RedisAddress({self})"

    def __str__(self) -> str:
        if self.scheme == "unix":
            return f"unix://{self.path}?db={self.database}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}/{self.database}"


def redis_address(url: str) -> RedisAddress:
    """The address that a URL names; raises ValueError without repeating any of it, since it may hold a password."""
    try:
        parts = urlsplit(url)
        address = _parse_file(parts) if parts.scheme == "unix" else _parse_server(parts)
    except ValueError:
        raise ValueError(f"needs the form {FORM}") from None
    return address


def _parse_server(parts: SplitResult) -> RedisAddress:
    host, number = parts.hostname or "", parts.path.removeprefix("/") or "0"
    if parts.scheme not in SCHEMES or not host or parts.port == 0 or parts.query or parts.fragment:
        raise ValueError
    host.encode("idna")  # what cannot be looked up is found out here, not at the first request
    return RedisAddress(parts.scheme, host, parts.port or PORT, "", _database(number), *_login(parts))


def _parse_file(parts: SplitResult) -> RedisAddress:
    options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    number, path = options.pop("db", "0"), unquote(parts.path)
    if parts.hostname or options or parts.fragment or not path.strip("/") or "\0" in path:
        raise ValueError
    return RedisAddress("unix", "", 0, path, _database(number), *_login(parts))


def _database(number: str) -> int:
    if not (number.isascii() and number.isdecimal()):
        raise ValueError
    return int(number)


def _login(parts: SplitResult) -> tuple[str | None, str | None]:
    return unquote(parts.username or "") or None, unquote(parts.password or "") or None
