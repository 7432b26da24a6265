"""A conversation that a client names: what differs from its agent's context, and the settings that hold for it."""

from dataclasses import dataclass, field

from gateway.domain.agent import ModelDefaults, Placement, SelectionSettings, ToolPermission

LONGEST_ID = 256  # characters of a session's id, and of the user that it belongs to
MAX_ITEMS = 200  # added or removed by hand


@dataclass(frozen=True, slots=True, order=True)
class SessionKey:
    """Which session: the same id under another workspace, key or user is another session."""

    workspace: str
    principal: str  # id of the key, or the principal's name
    user: str  # the user that the key acts for; "": none
    id: str


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What holds for every request of a session that says nothing itself; None: as the agent has it."""

    inject: bool | None = None
    budget: int | None = None
    selection: SelectionSettings = field(default_factory=SelectionSettings)
    placement: Placement | None = None
    max_turns: int | None = None
    retain: bool | None = None  # keep what the model fetched for later requests
    announce: bool | None = None  # tell the model when the content has changed
    defaults: ModelDefaults = field(default_factory=ModelDefaults)
    tool_permission: ToolPermission | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """The state of a session: only what differs from the current snapshot."""

    added: tuple[str, ...] = ()  # ids of resources, in the order in which they were added
    removed: tuple[str, ...] = ()
    retained: tuple[str, ...] = ()  # what the model fetched, the latest last
    content: str | None = None  # path of the node that the conversation is about
    settings: SessionSettings = field(default_factory=SessionSettings)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session as it is stored."""

    key: SessionKey
    version: int
    session: Session
    created: float
    updated: float
