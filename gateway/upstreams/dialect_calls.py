"""Calls to upstreams, translated where one does not speak the dialect of the call."""

from collections.abc import Awaitable

from gateway.domain.dialect import CALL_PATHS
from gateway.domain.upstream import Upstream, UpstreamReply, UpstreamRequest


def send_in_dialect(upstream: Upstream, request: UpstreamRequest) -> Awaitable[UpstreamReply]:
    """Send a call in its own dialect if the upstream speaks that, else translated."""
    if request.dialect in upstream.capabilities.dialects or not is_conversation(request):
        return upstream.send(request)
    from gateway.upstreams.translation.translated import send_translated  # of gateway.late_modules

    return send_translated(upstream, request)


def is_conversation(request: UpstreamRequest) -> bool:
    """Whether a call is one of those that have a dialect; others (embeddings, images) pass as they are."""
    return request.path.partition("?")[0] == CALL_PATHS[request.dialect]
