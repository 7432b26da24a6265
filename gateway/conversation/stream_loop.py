"""The turn loop for streams: what the client may see of each event, and when."""

from collections.abc import Iterable
from itertools import chain, groupby

from gateway import sse
from gateway.conversation.dialect import StreamView
from gateway.conversation.loop import FinishStep, NextTurnStep, Step, TurnLoop
from gateway.conversation.turn import LoopPlan, Turn
from gateway.domain.tool_result import ToolResult
from gateway.errors import GatewayError, UpstreamError, UpstreamInvalid


class StreamLoop(TurnLoop):
    """One exchange answered with a stream of events."""

    def __init__(self, plan: LoopPlan) -> None:
        super().__init__(plan)
        self._view: StreamView = plan.dialect.open_stream(plan)
        self._events = sse.EventBuffer()  # of the turn at hand
        self._fault: UpstreamError | None = None  # found behind events that the client sees first

    def build_request(self) -> bytes:
        body = super().build_request()
        self._events = sse.EventBuffer()
        self._view.begin_turn(self._start_turn())
        return body

    @property
    def failed(self) -> bool:
        """Whether the upstream itself sent an error event, which was passed on."""
        return self._view.failed

    @property
    def turn_done(self) -> bool:
        """Whether nothing more of this turn's stream matters."""
        return self._view.done or self._view.failed

    @property
    def may_be_silent(self) -> bool:
        """Whether the client may have to wait for bytes although the upstream is talking."""
        return self._view.may_be_silent

    @property
    def needs_driver(self) -> bool:
        """Whether there is more to do than to pass bytes on."""
        view = self._view
        return view.done or view.failed or self._fault is not None or view.may_be_silent

    def raise_fault(self) -> None:
        """Raise what is wrong with the stream, once everything before it was shown."""
        if self._fault is not None:
            raise self._fault

    def render_error(self, error: GatewayError) -> bytes:
        """An error as the client's last event."""
        return self._view.render_error(error)

    def feed(self, chunk: bytes) -> bytes:
        """Take bytes of the upstream's stream; return what the client may see of them now."""
        self._count(chunk)
        events, view = self._events, self._view
        data = events.take(chunk)
        if len(events) > sse.MAX_EVENT_BYTES:
            raise UpstreamInvalid("The upstream sent an event that never ends.")
        if not data:
            return b""
        passed = view.pass_unread(data)
        if len(passed) == len(data):
            return data
        rest = sse.split_events(data[len(passed) :])
        if len(rest) == 1 and not passed:
            return view.take_event(data)
        return self._take_events(rest, passed)

    def _take_events(self, events: list[bytes], passed: bytes) -> bytes:
        """What the client sees of events behind those that passed unread."""
        view, shown = self._view, [passed]
        try:
            for some in group_plain_events(events, view.plain_start):
                whole = some[0] if len(some) == 1 else b"".join(some)
                unread = view.pass_unread(whole)
                rest = some if not unread else sse.split_events(whole[len(unread) :]) if whole != unread else []
                shown.append(unread)
                shown += map(view.take_event, rest)
        except UpstreamError as fault:
            if not any(shown):
                raise
            self._fault = fault
        return b"".join(shown)

    def end(self) -> Step:
        """The upstream closed its stream cleanly: decide what comes next."""
        self.raise_fault()
        if self._view.failed:
            return FinishStep(b"")
        return self._decide(self._view.end_turn(self._events.tail))

    def resume(self, results: list[ToolResult]) -> Step:
        step = super().resume(results)
        if isinstance(step, NextTurnStep):
            self._view.hide_turn()
        return step

    def _build_last_bytes(self, turn: Turn) -> bytes:
        return self._view.finish(turn, self.usage)


def group_plain_events(events: list[bytes], start: bytes) -> Iterable[list[bytes]]:
    """The events, those together that follow each other and begin with `start`: they are read in one go."""
    if not start:
        return ([event] for event in events)
    grouped = groupby(events, lambda event: event.startswith(start))
    return chain.from_iterable([list(some)] if plain else ([event] for event in some) for plain, some in grouped)
