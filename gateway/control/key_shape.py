"""What is kept of an API key, and the principal that it stands for."""

from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from gateway.domain.principal import UNLIMITED, KeyLimits, Principal, Role
from gateway.domain.record import Record
from gateway.policies.shapes import Moment, Shape
from gateway.settings import KeyLimitSettings, KeySettings

KIND = "keys"
LATEST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
MOST_PER_MINUTE = 10**12  # far above any real limit, and within what counters can hold


def _check_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("may not hold line breaks or other control characters")
    return text


def _check_text(value: Any) -> Any:
    if isinstance(value, int | float):  # pydantic would take seconds, and "1" for them
        raise ValueError("must be a time such as 2030-01-31T12:00:00Z")
    return value


Label = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(_check_printable)]
Groups = Annotated[list[Label], Field(max_length=100)]
PerMinute = Annotated[int, Field(ge=1, le=MOST_PER_MINUTE, strict=True)]
End = Annotated[Moment, BeforeValidator(_check_text)]


class LimitsShape(Shape):
    """What a key may use up per minute; null: as much as it likes."""

    requests: PerMinute | None = None
    tokens: PerMinute | None = None


class KeyWish(Shape):
    """What a person may say about a key."""

    name: Label | None = None  # absent: called by its id
    role: Role = Role.CHAT
    agents: Annotated[list[Label], Field(max_length=1000)] | None = None  # null: any agent of the workspace
    agent: Label | None = None  # of requests that name none
    groups: Groups = Field(default_factory=list)
    tier: Label | None = None
    limits: LimitsShape = LimitsShape()
    act_for_users: Annotated[bool, Field(strict=True)] = False
    expires_at: End | None = None


class KeyShape(KeyWish):
    """The body of a stored key; the key itself is not kept."""

    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


def shape_of(record: Record) -> KeyShape:
    """A stored key; raises ValueError if somebody wrote something else there."""
    return KeyShape.model_validate_json(record.body or b"null")


def stored_principal(id: str, workspace: str, wish: KeyWish) -> Principal:
    """Whom a stored key stands for."""
    return Principal(
        name=wish.name or id,
        workspace=workspace,
        agents=None if wish.agents is None else frozenset(wish.agents),
        agent=wish.agent,
        rights=frozenset({"act_as_user"} if wish.act_for_users else ()),
        role=wish.role,
        groups=frozenset(wish.groups),
        tier=wish.tier,
        limits=_limits(wish.limits),
        key=id,
        # Not by its name: whoever may make keys could name one after somebody else.
        reader=id,
        expires=_seconds(wish.expires_at),
    )


def configured_principal(key: KeySettings) -> Principal:
    """Whom a key of the configuration stands for."""
    return Principal(
        name=key.name or f"key-{key.sha256[:8].lower()}",
        workspace=key.workspace,
        agents=None if key.agents is None else frozenset(key.agents),
        agent=key.agent,
        rights=frozenset(key.rights),
        role=key.role or (Role.ADMIN if "admin" in key.rights else Role.CHAT),
        groups=frozenset(key.groups),
        tier=key.tier,
        limits=_limits(key.limits),
        key=configured_id(key),
        expires=_seconds(key.expires_at),
    )


def configured_id(key: KeySettings) -> str:
    """An id that stays when a named key gets another secret, and that tells nothing of the secret's hash."""
    said = f"name:{key.name}" if key.name is not None else f"sha256:{key.sha256.lower()}"
    return f"config-{sha256(said.encode()).hexdigest()[:12]}"


def moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _limits(said: LimitsShape | KeyLimitSettings) -> KeyLimits:
    if said.requests is None and said.tokens is None:
        return UNLIMITED  # this very object: callers without limits are told by it
    return KeyLimits(said.requests, said.tokens)


def _seconds(at: datetime | None) -> float | None:
    """Within what a datetime in UTC can tell: other zones reach a few hours beyond it."""
    return None if at is None else min(max(0.0, at.timestamp()), LATEST)
