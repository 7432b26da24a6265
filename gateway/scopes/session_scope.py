"""What a session adds to a request: its content and settings, where the request says nothing itself."""

from msgspec.structs import replace

from gateway.domain.principal import Principal
from gateway.domain.scope import ContextRequest, RequestItem
from gateway.domain.session import LONGEST_ID, MAX_ITEMS, Session, SessionKey
from gateway.domain.snapshot import Snapshot
from gateway.errors import InvalidRequest, UnknownAlias
from gateway.scopes.scope import find_readable_node


def make_session_key(asked: ContextRequest, principal: Principal) -> SessionKey:
    """The session that the request names; raises InvalidRequest for names and lists that are too long."""
    key = SessionKey(principal.workspace, principal.key or principal.name, asked.user or "", asked.session or "")
    if (name := find_overlong_part(key)) is not None:
        message = f"In a session, x-context-{name} has at most {LONGEST_ID} characters."
        raise InvalidRequest(message, param=asked.where(name))
    if len(asked.pin) > MAX_ITEMS or len(asked.unpin) > MAX_ITEMS:
        raise InvalidRequest(f"A request can add and remove {MAX_ITEMS} items at most.", param=asked.where("pin"))
    return key


def find_overlong_part(key: SessionKey) -> str | None:
    """What of a key is too long to be stored: "session" or "user"."""
    if len(key.id) > LONGEST_ID:
        return "session"
    return "user" if len(key.user) > LONGEST_ID else None


def check_pinned(asked: ContextRequest, principal: Principal, snapshot: Snapshot) -> None:
    """Raise UnknownAlias for a resource that does not exist or that the caller may not read."""
    readers = principal.readers(asked.user)
    for name, ids in (("pin", asked.pin), ("unpin", asked.unpin)):
        for identity in ids:
            if snapshot.find_readable(identity, readers) is None:
                raise UnknownAlias("resource", identity, snapshot.list_readable(readers), param=asked.where(name))


def apply_session(asked: ContextRequest, session: Session, principal: Principal, snapshot: Snapshot) -> ContextRequest:
    """The request with what its session says; content that is gone or forbidden counts as none."""
    settings = session.settings
    injects = asked.inject if asked.says_inject or settings.inject is None else settings.inject
    return replace(
        asked,
        content=asked.content or find_content(session, principal.readers(asked.user), snapshot),
        budget=asked.budget if asked.budget is not None else settings.budget,
        inject=injects,
        selection=asked.selection.override(settings.selection),
    )


def find_content(session: Session, readers: frozenset[str], snapshot: Snapshot) -> str | None:
    """The path of the session's content, as far down as it exists."""
    if session.content is None:
        return None
    node = find_readable_node(session.content, readers, snapshot)
    return None if node is None else node.path


def announce_content(session: Session, path: str | None, snapshot: Snapshot) -> tuple[RequestItem, ...]:
    """A note to the model when the conversation turns to other content, if the session wants one."""
    if not session.settings.announce or session.content in (None, path) or path is None:
        return ()
    node = snapshot.tree.nodes[path]
    return (RequestItem("Change of content", f"The conversation is now about {node.title} ({path})."),)
