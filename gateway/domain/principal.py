"""Who is asking."""

from collections.abc import Collection
from enum import StrEnum

import msgspec

from gateway.domain.name_pattern import matches_pattern

DEFAULT_WORKSPACE = "default"
ANY_GROUP = "*"  # belongs to every group
MODEL_LENGTH = 1024  # no model has a longer name, and patterns are not tried on one
ACT_AS_USER = "act_as_user"  # a right
USER, GROUP, KEY = "user:", "group:", "key:"  # what a name in a reader list begins with


class Role(StrEnum):
    """What a key may do, each including what stands before it."""

    CHAT = "chat"
    EDITOR = "editor"
    ADMIN = "admin"

    def covers(self, needed: "Role") -> bool:
        return _ORDER.index(self) >= _ORDER.index(needed)


_ORDER = tuple(Role)


class KeyLimits(msgspec.Struct, frozen=True):
    """What a key may use up per minute; None: as much as it likes."""

    requests: int | None = None
    tokens: int | None = None  # of prompt and completion, as upstreams report them


UNLIMITED = KeyLimits()


class Principal(msgspec.Struct, frozen=True):
    """The caller as its key describes it; the workspace comes from nowhere else."""

    name: str
    workspace: str = DEFAULT_WORKSPACE
    agents: frozenset[str] | None = None  # None: any agent of the workspace
    agent: str | None = None  # bound: this agent whatever the request says
    agent_optional: bool = False  # may send requests without an agent although `agents` is limited
    models: frozenset[str] | None = None  # names or patterns; None: any model
    tools: frozenset[str] | None = None  # ids of tools or patterns; None: any
    rights: frozenset[str] = frozenset()  # "act_as_user", "admin"
    role: Role = Role.CHAT
    groups: frozenset[str] = frozenset()  # `group:` in reader lists; "*" belongs to every group
    tier: str | None = None
    limits: KeyLimits = UNLIMITED
    key: str | None = None  # id of the key; None: anonymous
    reader: str | None = None  # what reader lists call it after `key:`; None: its name
    expires: float | None = None  # seconds since 1970; None: never

    @property
    def needs_agent(self) -> bool:
        """Whether a request that names no agent is refused."""
        return self.agents is not None and self.agent is None and not self.agent_optional

    @property
    def may_act_for_users(self) -> bool:
        return ACT_AS_USER in self.rights

    def may_use(self, agent: str) -> bool:
        return self.agents is None or agent in self.agents or agent == self.agent

    def may_call(self, model: str) -> bool:
        if self.models is None:
            return True
        return len(model) <= MODEL_LENGTH and any(matches_pattern(pattern, model) for pattern in self.models)

    def may_use_tool(self, identity: str) -> bool:
        return self.tools is None or any(matches_pattern(pattern, identity) for pattern in self.tools)

    def readers(self, user: str | None = None) -> frozenset[str]:
        """The identities that reader lists are checked against, with the user that it acts for.

        Users, groups and keys are different name spaces: nobody becomes a group by taking its name.
        """
        own = {ANY_GROUP if group == ANY_GROUP else GROUP + group for group in self.groups}
        own.add(KEY + (self.reader or self.name))
        if user:
            own.add(USER + user)
        return frozenset(own)

    def name_actor(self, user: str | None) -> str:
        """Whose activity it is: that of the user it acts for, else its own. A key's name may be that of a user."""
        return USER + user if user else KEY + (self.reader or self.name)


def may_read(readers: frozenset[str], allowed: Collection[str]) -> bool:
    """Whether one of a caller's identities is on a reader list; an empty list is open to everyone."""
    if not allowed or not readers.isdisjoint(allowed):
        return True
    return ANY_GROUP in readers and any(name.startswith(GROUP) for name in allowed)


# Without keys only this machine can reach the gateway: whoever does may manage it, but not act for others.
ANONYMOUS = Principal("anonymous", role=Role.ADMIN)
