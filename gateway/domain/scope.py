"""What a request is about."""

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.domain.agent import (
    UNTUNED_SELECTION,
    Agent,
    ModelDefaults,
    Placement,
    Profile,
    Prompt,
    SelectionSettings,
    ToolPermission,
)
from gateway.domain.hints import NO_HINTS, ContextHints
from gateway.domain.node import Node
from gateway.domain.recipe import Recipe
from gateway.domain.session import Session

REQUEST_TYPES = ("assist", "chat", "search", "automate")


class RequestItem(msgspec.Struct, frozen=True):
    """Text that the caller provides for this one request."""

    name: str
    text: str


class ContextRequest(msgspec.Struct, frozen=True):
    """What headers and the `context` object ask for, before any alias is looked up."""

    session: str | None = None
    agent: str | None = None
    profile: str | None = None
    prompt: str | None = None
    content: str | None = None
    task: str | None = None
    user: str | None = None
    language: str | None = None
    type: str | None = None
    budget: int | None = None
    inject: bool = True
    says_inject: bool = False  # the request itself says whether to inject
    contexts: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: frozenset[str] = frozenset()
    pin: tuple[str, ...] = ()  # to add to the session
    unpin: tuple[str, ...] = ()  # to remove from it
    selection: SelectionSettings = UNTUNED_SELECTION
    refs: dict[str, Any] = msgspec.field(default_factory=dict)
    vars: dict[str, str] = msgspec.field(default_factory=dict)
    hints: ContextHints = NO_HINTS
    items: tuple[RequestItem, ...] = ()
    said_in: dict[str, str] = msgspec.field(default_factory=dict)  # field → header or body path, for errors

    def where(self, name: str) -> str:
        """The header or body path that gave `name`, for an error's `param`."""
        return self.said_in.get(name, f"context.{name}")


class Scope(msgspec.Struct, frozen=True):
    """What a request is about, every alias looked up in one snapshot."""

    request: ContextRequest
    agent: Agent | None
    profile: Profile | None
    prompt: Prompt | None
    node: Node | None
    takes_part: bool
    readers: frozenset[str]  # the identities that reader lists are checked against
    bound: bool  # the agent comes with the key and cannot be switched off
    contexts: tuple[str, ...] = ()  # that the request names, for the level `request`
    session: Session | None = None
    tools: frozenset[str] | None = None  # patterns of the tools that the key may use; None: any
    recipe: Recipe | None = None  # of the task that the request names
    refs: Mapping[str, tuple[Node, ...]] = msgspec.field(default_factory=dict)  # inputs of the task by role

    @property
    def selection(self) -> SelectionSettings:
        """The request's tuning of the selection over its agent's."""
        asked = self.request.selection
        return asked.override(self.agent.selection) if self.agent is not None else asked

    @property
    def max_turns(self) -> int | None:
        """How many upstream calls the session or the agent allows; None: they do not say."""
        own = self.agent.max_turns if self.agent is not None else None
        asked = self.session.settings.max_turns if self.session is not None else None
        if asked is None or (self.bound and own is None):
            return own
        return min(asked, own) if self.bound and own is not None else asked

    @property
    def tool_permission(self) -> ToolPermission:
        """What the agent says; the session, which its caller can change, can only be stricter."""
        own = (self.agent.tool_permission if self.agent is not None else None) or ToolPermission.ALLOW
        asked = self.session.settings.tool_permission if self.session is not None else None
        return own if asked is None else max(asked, own, key=lambda one: one.strictness)

    @property
    def retains(self) -> bool:
        """Whether what the model fetches stays in the session."""
        own = self.agent.retain if self.agent is not None else None
        asked = self.session.settings.retain if self.session is not None else None
        return (own if asked is None else asked) is not False

    @property
    def placement(self) -> Placement | None:
        """Where the volatile block goes, by session, agent or profile; None: they do not say."""
        if self.session is not None and self.session.settings.placement is not None and not self.bound:
            return self.session.settings.placement
        sources = (source for source in (self.agent, self.profile) if source is not None)
        return next((source.placement for source in sources if source.placement is not None), None)

    @property
    def model_defaults(self) -> list[ModelDefaults]:
        """What session, agent and profile send where the request says nothing, the first that says it first."""
        own = [self.session.settings.defaults] if self.session is not None else []
        return own + [source.defaults for source in (self.agent, self.profile) if source is not None]
