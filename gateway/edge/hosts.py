"""Which Host and Origin a request may name.

A web page can reach an unauthenticated loopback server through a name that it controls (DNS rebinding); the browser
then sends that name as Host, and its own as Origin.
"""

from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address

from gateway.errors import ForbiddenHost, InvalidRequest

REMEMBERED = 1024  # verdicts kept; clients could otherwise fill the memory with made-up names


class HostCheck:
    """Accepts requests by the host they were sent to."""

    def __init__(self, hosts: Iterable[str], keyed: Callable[[], bool]) -> None:
        self._names = frozenset(host.lower().rstrip(".").encode() for host in hosts)
        self._keyed = keyed  # whether callers need a key; keys come and go
        self._verdicts: dict[bytes, bool] = {}

    def check(self, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Raise unless the request names exactly one accepted Host and, without keys, no foreign Origin."""
        host, keyed = None, self._keyed()
        for name, value in headers:
            if name == b"host":
                if host is not None:
                    raise InvalidRequest("The request has more than one Host header.")
                host = value
            elif name == b"origin" and not keyed and not self._accepts(value.partition(b"://")[2]):
                raise ForbiddenHost("Web pages of other origins may not use this gateway without a key.")
        if not host:
            raise InvalidRequest("The request has no Host header.")
        if not (keyed and not self._names) and not self._accepts(host):
            raise ForbiddenHost(
                "This gateway does not answer to that Host. Its configuration can name it under `hosts`."
            )

    def _accepts(self, authority: bytes) -> bool:
        verdict = self._verdicts.get(authority)
        if verdict is None:
            verdict = self._judge(authority.lower())
            if len(self._verdicts) < REMEMBERED:
                self._verdicts[authority] = verdict
        return verdict

    def _judge(self, authority: bytes) -> bool:
        name = host_name(authority)
        if name is None:
            return False
        return authority in self._names or name in self._names or is_loopback(name)


def host_name(authority: bytes) -> bytes | None:
    """`host[:port]` without its port and final dot; None if it is not of that form."""
    if authority.startswith(b"["):
        name, bracket, port = authority.partition(b"]")
        name, well_formed = name + bracket, bool(bracket) and (not port or port.startswith(b":"))
        port = port[1:]
    else:
        name, _, port = authority.partition(b":")
        name, well_formed = name.rstrip(b"."), True
    return name if name and well_formed and (not port or port.isdigit()) else None


def is_loopback(name: bytes) -> bool:
    """Whether a host name can only mean this machine."""
    if name == b"localhost":
        return True
    try:
        return ip_address(name.decode("ascii").strip("[]")).is_loopback
    except ValueError:
        return False
