"""What a caller may reach through endpoints that are passed through: no context can be added there."""

from collections.abc import Iterable

from gateway.domain.name_pattern import matches_pattern
from gateway.domain.principal import Principal
from gateway.edge.health import SnapshotSource
from gateway.edge.routed_model import has_one_model
from gateway.errors import ContextRequired, InvalidRequest
from gateway.scopes.model_rights import require_model

# All others may generate text or media from what a caller writes.
HARMLESS = frozenset({"/v1/embeddings", "/v1/moderations", "/v1/audio/transcriptions", "/v1/audio/translations"})


class PassthroughRights:
    """Refuses what would walk around an agent or a mandatory context; `configured` paths are open to every key."""

    def __init__(self, policies: SnapshotSource, configured: Iterable[str]) -> None:
        self._policies = policies
        self._configured = tuple(f"/v1/{path.strip('/').removeprefix('v1/')}" for path in configured)

    def check_path(self, principal: Principal, path: str) -> None:
        """Raise ContextRequired if the caller must not go without context, and the path generates text or media."""
        if path in HARMLESS or any(matches_pattern(pattern, path) for pattern in self._configured):
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

    def _has_mandatory_context(self, workspace: str) -> bool:
        snapshot = self._policies.get_snapshot(workspace)
        default = None if snapshot.default is None else snapshot.contexts[snapshot.default]
        return bool(snapshot.mandatory) or (default is not None and any(one.mandatory for one in default.resources))
