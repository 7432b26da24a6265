"""Authentication by API keys, of which the gateway knows only the SHA-256."""

import logging
import time
from collections.abc import Callable, Iterable
from hashlib import sha256
from math import inf

import msgspec

from gateway.control.key_shape import KIND, make_configured_principal, make_stored_principal, parse_key_record
from gateway.control.keys import KEY_PREFIX
from gateway.domain.principal import ANONYMOUS, Principal
from gateway.domain.record import Record, RecordKey
from gateway.edge.request import RequestHead
from gateway.errors import Fault, Faults, InvalidApiKey, InvalidRequest, MissingApiKey, ServiceUnavailable
from gateway.settings import AuthSettings

Principals = dict[bytes, Principal]  # by the SHA-256 of the key

RETRY_SECONDS = 5.0
NO_KEY_LEFT = "An API key is needed, and there is none any more. Create one with `gateway keys create`."
NO_KEYS = (
    "is reachable from other machines, but there is no key: "
    "create one with `gateway keys create`, add auth.keys, or listen on 127.0.0.1"
)

log = logging.getLogger(__name__)


class Freshness(msgspec.Struct, frozen=True):
    """How long stored keys stay valid without contact to the store."""

    seconds: float = inf
    contact: Callable[[], float] = time.monotonic  # when the store was last heard from; -inf: never
    monotonic: Callable[[], float] = time.monotonic
    clock: Callable[[], float] = time.time  # for keys that expire

    def age(self) -> float:
        """Seconds since the last contact; inf: there was none."""
        return self.monotonic() - self.contact()

    @property
    def never(self) -> bool:
        return self.contact() == -inf


class CompiledKey(msgspec.Struct, frozen=True):
    """A stored key as it is looked up: by the digest of its secret."""

    record: Record
    digest: bytes
    principal: Principal


class Authenticator:
    """Finds the principal behind a request's key. Keys of the configuration win over stored ones."""

    def __init__(self, auth: AuthSettings, *, loopback: bool = True, fresh: Freshness | None = None) -> None:
        self._fresh = fresh or Freshness()
        self._loopback = loopback  # only this machine can reach the gateway
        self._configured: Principals = {bytes.fromhex(key.sha256): make_configured_principal(key) for key in auth.keys}
        self._records: dict[RecordKey, Record] = {}
        self._compiled: dict[RecordKey, CompiledKey | None] = {}
        self._principals: Principals = {}
        self._had_stored = False
        self._closed = False  # the store remembers that there was a key
        self._until = inf  # when the next key expires
        self.version = object()  # another one whenever a caller may be judged differently
        self._by_fingerprint: dict[str, bytes] | None = None  # made when somebody signs in
        self._rebuild()

    @property
    def keyed(self) -> bool:
        """Whether callers need a key at all."""
        # Neither expired or revoked keys nor a store that was never reached may open the gateway to everybody.
        known = self._principals or self._configured or self._had_stored or self._closed
        return bool(known) or not self._loopback or self._fresh.never

    def update(self, records: Iterable[Record], *, closed: bool = False) -> None:
        """Use the stored keys of all workspaces; only those that changed are parsed.

        `closed`: there was a key once, so that nobody is let in without one ever after.
        """
        if closed and not self._closed:
            self._closed, self.version = True, object()
        current = {record.key: record for record in records if record.body is not None}
        if current == self._records:  # most swaps are about policies; equal records are one and the same object
            return
        self._records = current
        self._compiled = {key: self._compile(record) for key, record in current.items()}
        self._had_stored = self._had_stored or bool(current)
        self._rebuild()

    def confirms(self, version: object) -> bool:
        """Whether a caller who was admitted at that version would be admitted again; False: perhaps."""
        if version is not self.version or (self._until is not inf and self._fresh.clock() >= self._until):
            return False
        return not self._had_stored or self._fresh.age() <= self._fresh.seconds

    def is_revoked(self, principal: Principal) -> bool:
        """Whether the stored key of a principal is gone; expired ones are not."""
        if principal.reader is None:
            return False  # the configuration has it, or nobody
        return self._compiled.get(RecordKey(principal.workspace, KIND, principal.reader)) is None

    def count_workspaces(self) -> int:
        """How many workspaces have a key, whether it has expired or not."""
        stored = (entry.principal for entry in self._compiled.values() if entry is not None)
        return len({one.workspace for one in (*self._configured.values(), *stored)})

    def require_keys(self) -> None:
        """Raise Faults if other machines can reach the gateway and there is no key."""
        if not self._loopback and not self._principals and not self._fresh.never:
            raise Faults([Fault("config", 1, "listen.host", NO_KEYS)])

    def authenticate(self, head: RequestHead) -> Principal:
        """The caller by `x-context-key`, else by bearer, else by `api-key`; anonymous where there are no keys."""
        if self._until is not inf and self._fresh.clock() >= self._until:
            self._rebuild()
        if not self._principals and not self.keyed:
            return ANONYMOUS
        if len(head.gateway_keys) > 1:
            raise InvalidRequest("The header x-context-key must not be repeated.", param="x-context-key")
        given = head.gateway_key if head.gateway_key is not None else head.bearer
        if given is None:
            given = head.api_key
        if not given:
            if not self._principals:
                self._require_contact()
                raise MissingApiKey(NO_KEY_LEFT)
            raise MissingApiKey("The API key is missing. Send it as 'Authorization: Bearer <key>'.")
        digest = sha256(given).digest()
        principal = self._principals.get(digest)
        if (self._had_stored or principal is None) and digest not in self._configured:
            self._require_contact()
        if principal is None:
            raise InvalidApiKey("The API key is invalid.")
        return principal

    def find_fingerprint(self, principal: Principal) -> str | None:
        """What stands for the key of a principal; None: it has none. Its secret cannot be guessed from that."""
        digest = next((digest for digest, one in self._principals.items() if one is principal), None)
        return None if digest is None else sha256(digest).hexdigest()

    def find_by_fingerprint(self, fingerprint: str) -> Principal | None:
        """The principal of a key that is valid now; raises ServiceUnavailable while that cannot be said."""
        if self._until is not inf and self._fresh.clock() >= self._until:
            self._rebuild()
        if self._by_fingerprint is None:
            self._by_fingerprint = {sha256(digest).hexdigest(): digest for digest in self._principals}
        digest = self._by_fingerprint.get(fingerprint)
        if digest not in self._configured:
            self._require_contact()
        return None if digest is None else self._principals.get(digest)

    def find_client_bearer(self, head: RequestHead) -> str | None:
        """The client's own bearer token, for upstreams with `pass_bearer`; never a key of the gateway."""
        bearer = head.bearer if head.bearer is not None else head.api_key
        if bearer is None or bearer.startswith(KEY_PREFIX.encode()):
            return None
        if self._principals and (head.gateway_key is None or sha256(bearer).digest() in self._principals):
            return None
        return bearer.decode("latin-1")

    def _require_contact(self) -> None:
        """Raise ServiceUnavailable while stored keys cannot be verified: neither accept nor reject one then."""
        age = self._fresh.age()
        if age == inf or (self._had_stored and age > self._fresh.seconds):
            error = ServiceUnavailable("API keys cannot be verified because the store is unreachable. Try again later.")
            error.retry_after = RETRY_SECONDS
            raise error

    def _rebuild(self) -> None:
        now = self._fresh.clock()
        self.version = object()
        stored = {entry.digest: entry.principal for entry in self._compiled.values() if entry is not None}
        every = stored | self._configured
        self._principals = {digest: one for digest, one in every.items() if one.expires is None or one.expires > now}
        self._by_fingerprint = None
        self._until = min((one.expires for one in self._principals.values() if one.expires is not None), default=inf)

    def _compile(self, record: Record) -> CompiledKey | None:
        known = self._compiled.get(record.key)
        if known is not None and known.record is record:
            return known
        try:
            shape = parse_key_record(record)
        except ValueError:
            log.error("stored key %s is invalid and was rejected", record.key.alias)
            return None
        principal = make_stored_principal(record.key.alias, record.key.workspace, shape)
        return CompiledKey(record, bytes.fromhex(shape.sha256), principal)
