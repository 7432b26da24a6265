"""Replies on their way through a keeper, as the pipeline leads them."""

from gateway.conversation.dialects.responses.keeping import ResponseKeeper
from gateway.conversation.loop import TurnLoop
from gateway.domain.exchange import Exchange, Reply
from gateway.domain.principal import ANONYMOUS
from gateway.domain.snapshot import EMPTY_SNAPSHOT


def make_exchange() -> Exchange:
    return Exchange("id", ANONYMOUS, EMPTY_SNAPSHOT)


async def keep_reply(keeper: ResponseKeeper, reply: Reply, loop: TurnLoop | None = None) -> Reply:
    """The reply, kept if it is whole; a stream is kept when it ends."""
    if (kept := keeper.keep(reply, loop)) is not None:
        await kept
    return reply
