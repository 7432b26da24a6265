"""From ContextRequest to Scope: every alias is looked up in one snapshot, among what the caller may see."""

from itertools import islice
from typing import TypeVar

from msgspec.structs import replace

from gateway.domain.agent import Agent, Profile
from gateway.domain.candidate import Assignment, Level
from gateway.domain.context import Context
from gateway.domain.hints import NO_HINTS
from gateway.domain.node import Node
from gateway.domain.principal import ANY_GROUP, Principal, may_read
from gateway.domain.scope import ContextRequest, Scope
from gateway.domain.session import Session
from gateway.domain.snapshot import Snapshot
from gateway.errors import (
    MOST_KNOWN,
    AgentConflict,
    AgentRequired,
    ModelRequired,
    ServiceUnavailable,
    UnknownAlias,
    UserNotAllowed,
    quote,
)
from gateway.scopes.recipe_scope import apply_recipe

AGENT_MODEL = "agent:"
T = TypeVar("T")


def build_scope(
    asked: ContextRequest,
    model: str | None,
    principal: Principal,
    snapshot: Snapshot,
    session: Session | None = None,
) -> Scope:
    """The scope of a request; raises UnknownAlias, AgentConflict or UserNotAllowed."""
    require_user_right(asked, principal)
    # Identities that no reader list names make no difference: callers who may read the same share what is cached.
    readers = principal.readers(asked.user) & (snapshot.readers | {ANY_GROUP})
    agent = find_agent(asked, model, principal, snapshot)
    bound = agent is not None and agent.alias == principal.agent
    profile = find_profile(asked, agent, bound, snapshot)
    node = find_node(asked.content, readers, snapshot, asked.where("content")) if asked.content else None
    takes_part = decide_participation(agent, profile)
    scope = Scope(
        request=asked if asked.hints is NO_HINTS else replace(asked, hints=asked.hints.resolve(snapshot.tree)),
        agent=agent,
        profile=profile,
        prompt=look_up("prompt", asked.prompt, snapshot.prompts, asked.where("prompt")) if asked.prompt else None,
        node=node,
        takes_part=takes_part,
        readers=readers,
        bound=bound,
        contexts=find_contexts(asked, readers, snapshot) if asked.contexts else (),
        session=session,
        tools=principal.tools,
    )
    return apply_recipe(scope, snapshot) if asked.task and takes_part and snapshot.recipes else scope


def require_user_right(asked: ContextRequest, principal: Principal) -> None:
    """Raise UserNotAllowed if the request names a user that its key may not act for."""
    if asked.user is not None and not principal.may_act_for_users:
        raise UserNotAllowed(param=asked.where("user"))


def find_agent(asked: ContextRequest, model: str | None, principal: Principal, snapshot: Snapshot) -> Agent | None:
    """The agent that the key is bound to, else the one in the header, else in the model.

    A forbidden agent counts as unknown. A bound key gets its own agent, whichever it names.
    """
    by_model = model[len(AGENT_MODEL) :] if model is not None and model.startswith(AGENT_MODEL) else None
    if by_model is not None and asked.agent is not None and asked.agent != by_model:
        raise AgentConflict(
            f"The request names agent {quote(asked.agent)}, but its model names {quote(by_model)}.",
            param=asked.where("agent"),
        )
    alias = asked.agent or by_model
    if alias is not None and not (alias in snapshot.agents and principal.may_use(alias)):
        visible = filter(principal.may_use, snapshot.agents)
        raise UnknownAlias("agent", alias, visible, param=asked.where("agent") if asked.agent else "model")
    if principal.agent is not None:
        return get_bound_agent(principal.agent, snapshot)
    if alias is None and principal.needs_agent:
        message = "This key may be used with an agent only: send x-context-agent or the model agent:<alias>."
        raise AgentRequired(message, param="x-context-agent")
    return None if alias is None else snapshot.agents[alias]


def get_bound_agent(alias: str, snapshot: Snapshot) -> Agent:
    """The agent that a key is bound to; without it, callers would escape what it makes mandatory."""
    if alias not in snapshot.agents:
        gone = ServiceUnavailable("The agent of this key no longer exists. Contact the operator of the gateway.")
        gone.is_lasting = True
        raise gone
    return snapshot.agents[alias]


def find_profile(asked: ContextRequest, agent: Agent | None, bound: bool, snapshot: Snapshot) -> Profile | None:
    """The profile in the request, else the agent's; the profile of a bound agent belongs to it."""
    wanted = look_up("profile", asked.profile, snapshot.profiles, asked.where("profile")) if asked.profile else None
    own = snapshot.profiles[agent.profile] if agent is not None and agent.profile else None
    return own if bound and own is not None else wanted or own


def find_contexts(asked: ContextRequest, readers: frozenset[str], snapshot: Snapshot) -> tuple[str, ...]:
    """The contexts that the request names; one in which the caller may read nothing counts as unknown."""
    for alias in asked.contexts:
        if alias not in snapshot.contexts or not may_read_context(snapshot.contexts[alias], readers):
            visible = (known for known, one in snapshot.contexts.items() if may_read_context(one, readers))
            raise UnknownAlias("context", alias, visible, param=asked.where("contexts"))
    return asked.contexts


def may_read_context(context: Context, readers: frozenset[str]) -> bool:
    return not context.resources or has_readable(context, readers)


def find_node(content: str, readers: frozenset[str], snapshot: Snapshot, param: str) -> Node:
    """A node by id or path; raises UnknownAlias if there is none that the caller may read."""
    found, tree = find_readable_node(content, readers, snapshot), snapshot.tree
    if found is not None:
        return found
    near = islice(tree.nodes.items(), MOST_KNOWN)  # a tree may have any number of nodes, whoever may read them
    visible = (path for path, node in near if tree.may_read(readers, node))
    raise UnknownAlias("content", content, visible, param=param)


def find_readable_node(content: str, readers: frozenset[str], snapshot: Snapshot) -> Node | None:
    """A node by id or path; for a path, the longest known prefix. What the caller may not read does not exist."""
    node = snapshot.tree.get(content)
    if node is not None and snapshot.tree.may_read(readers, node):
        return node
    return find_longest_prefix(content.strip("/"), readers, snapshot)


def find_longest_prefix(path: str, readers: frozenset[str], snapshot: Snapshot) -> Node | None:
    """The last node on the way down a path; from the root, since a path may have any length and the tree has not."""
    found = None
    end = 0
    while end >= 0:
        end = path.find("/", end + 1)
        node = snapshot.tree.nodes.get(path if end < 0 else path[:end])
        if node is None or not may_read(readers, node.readers):
            break
        found = node
    return found


def look_up(noun: str, alias: str, known: dict[str, T], param: str) -> T:
    if alias not in known:
        raise UnknownAlias(noun, alias, known, param=param)
    return known[alias]


def decide_participation(agent: Agent | None, profile: Profile | None) -> bool:
    if agent is None:
        return True
    if agent.inject is not None:
        return agent.inject
    return bool(agent.contexts or (profile is not None and profile.contexts))


def choose_model(model: str | None, scope: Scope, default: str | None) -> str:
    """The client's model; if that is missing or names an agent: that of session, agent, profile or settings."""
    chosen = model
    if model is None or model.startswith(AGENT_MODEL):
        chosen = find_session_model(scope.session) or find_own_model(scope.agent, scope.profile) or default
    if not chosen:
        message = "No model was specified, and neither agent, profile nor settings define one."
        raise ModelRequired(message, param="model")
    return chosen


def find_session_model(session: Session | None) -> str | None:
    return None if session is None else session.settings.defaults.model


def find_own_model(agent: Agent | None, profile: Profile | None) -> str | None:
    """The model of an agent, else that of its profile."""
    models = (source.defaults.model for source in (agent, profile) if source is not None)
    return next((model for model in models if model), None)


def resolve_assignments(scope: Scope, snapshot: Snapshot) -> tuple[Assignment, ...]:
    """Mandatory contexts, then those of the scope's own levels, and the global default if these yield no resource."""
    always = tuple(Assignment(Level.GLOBAL, "", alias) for alias in snapshot.mandatory)
    if not scope.takes_part:
        return always
    # A context outside its validity period does not exist.
    found = [one for one in list_own_assignments(scope, snapshot) if one.context in snapshot.contexts]
    default = snapshot.default
    if default is not None and default not in snapshot.mandatory:
        yielding = (has_readable(snapshot.contexts[one.context], scope.readers) for one in found)
        found += () if any(yielding) else (Assignment(Level.GLOBAL, "", default),)
    return (*always, *found)


def has_readable(context: Context, readers: frozenset[str]) -> bool:
    """Whether a context yields a resource to somebody."""
    return any(may_read(readers, resource.readers) for resource in context.resources)


def list_own_assignments(scope: Scope, snapshot: Snapshot) -> list[Assignment]:
    """Assignments of the profile, agent, prompt, content and the request itself, in this order."""
    found: list[Assignment] = []
    for level, source in (
        (Level.PROFILE, scope.profile),
        (Level.AGENT, scope.agent),
        (Level.PROMPT, scope.prompt),
    ):
        if source is not None:
            found += (Assignment(level, source.alias, alias) for alias in source.contexts)
    if scope.node is not None:
        found += list_content_assignments(scope.node, snapshot)
    found += (Assignment(Level.REQUEST, "", alias) for alias in scope.contexts)
    return found


def list_content_assignments(node: Node, snapshot: Snapshot) -> list[Assignment]:
    """Assignments of the nearest node that has any; with `inherit: merge`, also of the next one above it."""
    found: list[Assignment] = []
    for above in snapshot.tree.list_ancestry(node):
        if not any(alias in snapshot.contexts for alias in above.contexts):
            continue
        found = [Assignment(Level.CONTENT, above.path, alias) for alias in above.contexts] + found
        if not above.merge:
            break
    return found
