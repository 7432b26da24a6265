"""Whether one key may have what another one has. A key never grants, changes or ends more than it is itself."""

from collections.abc import Iterator
from math import inf

from gateway.domain.principal import ANY_GROUP, Principal
from gateway.errors import Forbidden

ACT = "act_as_user"


def require_within(holder: Principal, wanted: Principal) -> None:
    """Raise Forbidden, naming the field, where `wanted` has something that `holder` lacks."""
    for field, why in excesses(holder, wanted):
        raise Forbidden(f"{field}: {why}", param=field)


def excesses(holder: Principal, wanted: Principal) -> Iterator[tuple[str, str]]:
    """Field and reason of everything that `wanted` has beyond `holder`."""
    if wanted.workspace != holder.workspace:
        yield "workspace", "a key belongs to the workspace of whoever makes it."
    if not holder.role.covers(wanted.role):
        yield "role", f"your key is of role {holder.role}, which does not include {wanted.role}."
    yield from _agents(holder, wanted)
    if ANY_GROUP not in holder.groups and (more := sorted(wanted.groups - holder.groups)):
        yield "groups", f"your key is not in {', '.join(map(repr, more))}."
    if holder.tier is not None and wanted.tier != holder.tier:
        yield "tier", f"your key is of tier {holder.tier!r} and can give no other."
    if most(wanted.limits.requests) > most(holder.limits.requests):
        yield "limits.requests", f"your key may send {holder.limits.requests} requests a minute, this one at most too."
    if most(wanted.limits.tokens) > most(holder.limits.tokens):
        yield "limits.tokens", f"your key may use {holder.limits.tokens} tokens a minute, this one at most too."
    if ACT in wanted.rights and ACT not in holder.rights:
        yield "act_for_users", "your key may not act for users itself."
    if most(wanted.expires) > most(holder.expires):
        yield "expires_at", "your key expires, and this one may not outlive it."


def most(limit: float | None) -> float:
    """A limit as a number; none at all is the largest."""
    return inf if limit is None else limit


def _agents(holder: Principal, wanted: Principal) -> Iterator[tuple[str, str]]:
    if holder.agents is not None:
        if wanted.agents is None:
            yield "agents", "your key may use some agents only; name those that this one may use."
        elif more := sorted(agent for agent in wanted.agents if not holder.may_use(agent)):
            yield "agents", f"your key may not use {', '.join(map(repr, more))}."
    # A bound agent cannot be switched off: a key without it would escape what the agent makes mandatory.
    if holder.agent is not None and wanted.agent != holder.agent:
        yield "agent", f"your key is bound to the agent {holder.agent!r}, and so is every key that it makes."
    elif wanted.agent is not None and not holder.may_use(wanted.agent):
        yield "agent", f"your key may not use {wanted.agent!r}."
