"""Who is asking: API keys, known to the gateway by their SHA-256 only."""

from collections.abc import Sequence
from hashlib import sha256

from gateway.domain.principal import ANONYMOUS, Principal
from gateway.errors import InvalidApiKey
from gateway.settings import Auth, Key

Headers = Sequence[tuple[bytes, bytes]]


class Authenticator:
    """Finds the principal behind a request's key."""

    def __init__(self, auth: Auth) -> None:
        self._principals = {bytes.fromhex(key.sha256): _principal(key) for key in auth.keys}

    @property
    def keyed(self) -> bool:
        """Whether callers need a key at all."""
        return bool(self._principals)

    def authenticate(self, headers: Headers) -> Principal:
        """The caller by `x-context-key`, else by bearer; anonymous where no keys are configured."""
        if not self._principals:
            return ANONYMOUS
        own, bearer = _credentials(headers)
        given = own if own is not None else bearer
        if not given:
            raise InvalidApiKey("No API key was given. Send it as 'Authorization: Bearer <key>'.")
        principal = self._principals.get(sha256(given).digest())
        if principal is None:
            raise InvalidApiKey("The API key is not known to this gateway.")
        return principal

    def client_bearer(self, headers: Headers) -> str | None:
        """The bearer that is the client's own, for upstreams that pass it through; never a key of ours."""
        own, bearer = _credentials(headers)
        if bearer is None or (self._principals and (own is None or sha256(bearer).digest() in self._principals)):
            return None
        return bearer.decode("latin-1")


def _principal(key: Key) -> Principal:
    return Principal(
        name=key.name or f"key-{key.sha256[:8].lower()}",
        workspace=key.workspace,
        agents=None if key.agents is None else frozenset(key.agents),
        agent=key.agent,
        rights=frozenset(key.rights),
    )


def _credentials(headers: Headers) -> tuple[bytes | None, bytes | None]:
    """The values of `x-context-key` and of a bearer `Authorization`; of a repeated header the first."""
    own: bytes | None = None
    bearer: bytes | None = None
    for name, value in headers:
        if name == b"x-context-key" and own is None:
            own = value.strip()
        elif name == b"authorization" and bearer is None:
            scheme, _, token = value.partition(b" ")
            if scheme.lower() == b"bearer":
                bearer = token.strip()
    return own, bearer
