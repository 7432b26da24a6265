"""What a caller may reach through endpoints that are passed through: no context can be added there."""

import re
from collections.abc import Iterable, Sequence
from typing import Self

import msgspec

from gateway.conversation.object_guard import ObjectGuard
from gateway.domain.principal import Principal
from gateway.domain.upstream import Upstream
from gateway.edge.routed_model import has_one_model
from gateway.edge.snapshot_source import SnapshotSource
from gateway.errors import ContextRequired, Forbidden, InvalidRequest
from gateway.scopes.model_rights import require_model, require_one_model
from gateway.settings_sections import PassthroughSettings

# All others may generate text or media from what a caller writes.
HARMLESS = frozenset({"/v1/embeddings", "/v1/moderations", "/v1/audio/transcriptions", "/v1/audio/translations"})


# What a `*` stands for. Other characters, `;` and escapes among them, mean different things to different servers.
_TAIL = re.compile(r"[A-Za-z0-9._~/-]+")


class PathPatterns:
    """Paths, and families of paths that end in `/*`."""

    def __init__(self, paths: Iterable[str]) -> None:
        known = tuple(paths)
        self._exact = frozenset(path for path in known if not path.endswith("/*"))
        self._below = tuple(path.removesuffix("*") for path in known if path.endswith("/*"))

    def matches(self, path: str) -> bool:
        return path in self._exact or any(
            path.startswith(prefix) and _TAIL.fullmatch(path, len(prefix)) is not None for prefix in self._below
        )


class ConfiguredPath(msgspec.Struct, frozen=True):
    """A path that the operator lists, with or without `/v1`."""

    patterns: PathPatterns
    upstream: str | None = None
    keys: frozenset[str] | None = None  # None: every key may use it

    @classmethod
    def from_settings(cls, given: str | PassthroughSettings) -> Self:
        said = PassthroughSettings(path=given) if isinstance(given, str) else given
        path = f"/v1/{said.path.strip('/').removeprefix('v1/')}"
        return cls(PathPatterns([path]), said.upstream, None if said.keys is None else frozenset(said.keys))

    def admits(self, principal: Principal) -> bool:
        return self.keys is None or (principal.reader or principal.name) in self.keys


class PassthroughRights:
    """Refuses what would walk around an agent or a mandatory context; a configured path says whose it is."""

    def __init__(self, policies: SnapshotSource, objects: ObjectGuard | None = None) -> None:
        self._policies, self._objects = policies, objects

    def check_path(self, principal: Principal, path: str, configured: ConfiguredPath | None = None) -> None:
        """Raise ContextRequired if the caller must not go without context, and the path generates text or media.

        Raises Forbidden for a configured path that is not for this key.
        """
        if configured is not None and not configured.admits(principal):
            raise Forbidden(f"This key may not use {path}.")
        if path in HARMLESS or configured is not None:
            return
        if principal.agent is not None:
            reason = "This key is bound to an agent"
        elif principal.needs_agent:
            reason = "This key may be used with an agent only"
        elif self._has_mandatory_context(principal.workspace):
            reason = "Some context is mandatory here"
        else:
            return
        raise ContextRequired(f"{reason}, and {path} has none. Use /v1/chat/completions.")

    def check_model(self, principal: Principal, model: str, content_type: bytes, body: bytes) -> None:
        """Raise unless the key may use the model, and the body names no other one."""
        if principal.models is None:
            return
        require_model(principal, model)
        if not has_one_model(content_type, body):
            raise InvalidRequest("`model` must be given only once.", param="model")
        if content_type.strip().lower().startswith(b"application/json"):
            require_one_model(principal, body)

    async def check_objects(self, principal: Principal, path: str, body: bytes, upstreams: Sequence[Upstream]) -> None:
        """Raise ObjectNotAllowed if a request names what another workspace may keep at an upstream."""
        if self._objects is not None and self._objects.active:
            self._objects.check_path(path, upstreams)
            await self._objects.check_body(principal.workspace, body, upstreams)

    def _has_mandatory_context(self, workspace: str) -> bool:
        snapshot = self._policies.get_snapshot(workspace)
        default = None if snapshot.default is None else snapshot.contexts[snapshot.default]
        return bool(snapshot.mandatory) or (default is not None and any(one.mandatory for one in default.resources))
