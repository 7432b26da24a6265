"""What of earlier turns may be sent again: what the caller can reach in the request at hand."""

from collections.abc import Container

import msgspec

from gateway.content.library import PREFIX
from gateway.domain.selection import Selection


class ReachableContext(msgspec.Struct):
    """The resources of a selection and the nodes that the tools can fetch beside it, by the ids that tools use."""

    selection: Selection
    nodes: Container[str] | None = None  # None: the request is not about content
    _resources: frozenset[str] | None = None

    def list_reachable(self) -> Container[str]:
        """Itself: the resources are only listed when somebody asks for one."""
        return self

    def __contains__(self, id: object) -> bool:
        if isinstance(id, str) and id.startswith(PREFIX):
            return self.nodes is not None and id in self.nodes
        if self._resources is None:
            self._resources = self.selection.list_reachable()
        return id in self._resources
