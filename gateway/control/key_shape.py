"""What is stored of an API key, the principal that it stands for, and what may be shown of it."""

from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Any, overload

import msgspec
import orjson
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from gateway.domain.principal import ACT_AS_USER, UNLIMITED, KeyLimits, Principal, Role
from gateway.domain.record import Record
from gateway.policies.shapes import Moment, Shape
from gateway.settings import KeyLimitSettings, KeySettings

KIND = "keys"
LATEST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
MOST_PER_MINUTE = 10**12  # far above any real limit, and within what counters can hold


def _check_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must not contain line breaks or other control characters")
    return text


def _check_text(value: Any) -> Any:
    if isinstance(value, int | float):  # pydantic would read seconds since 1970, also from "1"
        raise ValueError("must be a time such as 2030-01-31T12:00:00Z")
    return value


Label = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(_check_printable)]
# Matched against a name that a client sends: few stars keep that cheap.
ModelPattern = Annotated[str, StringConstraints(min_length=1, max_length=256), AfterValidator(_check_printable)]
Groups = Annotated[list[Label], Field(max_length=100)]
PerMinute = Annotated[int, Field(ge=1, le=MOST_PER_MINUTE, strict=True)]
End = Annotated[Moment, BeforeValidator(_check_text)]


class LimitsShape(Shape):
    """What a key may use per minute; null: no limit."""

    requests: PerMinute | None = None
    tokens: PerMinute | None = None


class KeySpec(Shape):
    """What a person may specify about a key."""

    name: Label | None = None  # default: its id
    role: Role = Role.CHAT
    agents: Annotated[list[Label], Field(max_length=1000)] | None = None  # null: any agent of the workspace
    agent: Label | None = None  # bound: that agent whatever the request says
    agent_optional: Annotated[bool, Field(strict=True)] = False  # requests without an agent are allowed too
    models: Annotated[list[ModelPattern], Field(max_length=100)] | None = None  # null: any model
    tools: Annotated[list[ModelPattern], Field(max_length=100)] | None = None  # ids or patterns; null: any tool
    groups: Groups = Field(default_factory=list)
    tier: Label | None = None
    limits: LimitsShape = LimitsShape.model_construct()
    act_for_users: Annotated[bool, Field(strict=True)] = False
    expires_at: End | None = None


class KeyShape(KeySpec):
    """The body of a stored key; the key itself is not stored."""

    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class KeyInfo(msgspec.Struct, frozen=True):
    """What may be shown of a key: never the key itself, nor its hash."""

    principal: Principal
    record: Record | None  # None: it is defined in the configuration

    @classmethod
    def from_record(cls, record: Record, spec: KeySpec) -> "KeyInfo":
        return cls(make_stored_principal(record.key.alias, record.key.workspace, spec), record)

    @property
    def id(self) -> str:
        return self.principal.key or ""

    @property
    def data(self) -> dict[str, Any]:
        """Everything that may be shown, as in JSON."""
        holder, record = self.principal, self.record
        return {
            "id": self.id,
            "name": holder.name,
            "workspace": holder.workspace,
            "role": holder.role.value,
            "agents": None if holder.agents is None else sorted(holder.agents),
            "agent": holder.agent,
            "agent_optional": holder.agent_optional,
            "models": None if holder.models is None else sorted(holder.models),
            "tools": None if holder.tools is None else sorted(holder.tools),
            "groups": sorted(holder.groups),
            "tier": holder.tier,
            "limits": {"requests": holder.limits.requests, "tokens": holder.limits.tokens},
            "act_for_users": holder.may_act_for_users,
            "expires_at": format_time(holder.expires),
            "source": "config" if record is None else "store",
            "version": 0 if record is None else record.version,
            "updated_at": None if record is None else format_time(record.at),
            "updated_by": None if record is None else record.by,
        }

    @property
    def tag(self) -> str:
        """Changes with everything that a reader sees."""
        data = self.data
        return f"{data['version']}-{sha256(orjson.dumps(data)).hexdigest()[:8]}"


def parse_key_record(record: Record) -> KeyShape:
    """A stored key; raises ValueError if the record holds something else."""
    return KeyShape.model_validate_json(record.body or b"null")


def make_stored_principal(id: str, workspace: str, spec: KeySpec) -> Principal:
    """The principal of a stored key."""
    return Principal(
        name=spec.name or id,
        workspace=workspace,
        agents=None if spec.agents is None else frozenset(spec.agents),
        agent=spec.agent,
        agent_optional=spec.agent_optional,
        models=None if spec.models is None else frozenset(spec.models),
        tools=None if spec.tools is None else frozenset(spec.tools),
        rights=frozenset({ACT_AS_USER} if spec.act_for_users else ()),
        role=spec.role,
        groups=frozenset(spec.groups),
        tier=spec.tier,
        limits=_make_limits(spec.limits),
        key=id,
        # Not by its name: anyone who may create keys could name one after somebody else.
        reader=id,
        expires=_to_timestamp(spec.expires_at),
    )


def make_configured_principal(key: KeySettings) -> Principal:
    """The principal of a key in the configuration."""
    return Principal(
        name=key.name or f"key-{key.sha256[:8].lower()}",
        workspace=key.workspace,
        agents=None if key.agents is None else frozenset(key.agents),
        agent=key.agent,
        agent_optional=key.agent_optional,
        models=None if key.models is None else frozenset(key.models),
        tools=None if key.tools is None else frozenset(key.tools),
        rights=frozenset(key.rights),
        role=key.role or (Role.ADMIN if "admin" in key.rights else Role.CHAT),
        groups=frozenset(key.groups),
        tier=key.tier,
        limits=_make_limits(key.limits),
        key=make_configured_id(key),
        expires=_to_timestamp(key.expires_at),
    )


def make_configured_id(key: KeySettings) -> str:
    """An id that survives a new secret for a named key, and that reveals nothing of the secret's hash."""
    source = f"name:{key.name}" if key.name is not None else f"sha256:{key.sha256.lower()}"
    return f"config-{sha256(source.encode()).hexdigest()[:12]}"


@overload
def to_datetime(seconds: float) -> datetime: ...


@overload
def to_datetime(seconds: None) -> None: ...


def to_datetime(seconds: float | None) -> datetime | None:
    """Seconds since 1970 as a time in UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def format_time(seconds: float | None) -> str | None:
    """Seconds since 1970 as RFC 3339."""
    at = to_datetime(seconds)
    return None if at is None else at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _make_limits(settings: LimitsShape | KeyLimitSettings) -> KeyLimits:
    if settings.requests is None and settings.tokens is None:
        return UNLIMITED  # this very object: callers without limits are recognized by it
    return KeyLimits(settings.requests, settings.tokens)


def _to_timestamp(at: datetime | None) -> float | None:
    """Limited to what a datetime in UTC can express: other zones reach a few hours beyond it."""
    return None if at is None else min(max(0.0, at.timestamp()), LATEST)
