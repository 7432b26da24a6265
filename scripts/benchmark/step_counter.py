"""A gateway that counts its own steps: `python step_counter.py serve --config FILE` is `gateway serve`, traced.

A step is an opcode that the interpreter executes. Each thread is counted from its first function on, all the time;
whoever wants to know what some requests took reads the totals before and after them. Every line on standard input is
answered with the totals of all functions so far, as one line of JSON on standard output.

This file runs with the interpreter of any checkout, so it imports nothing of ours but that checkout's gateway.
"""

import importlib
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

# What gathers requests by the clock waits this many times as long, as a traced gateway is that much slower: its batches
# are then as large as those of any other.
SLOWNESS = 10
STRETCHED = {
    "gateway.receipts.recorder": ("GATHER_SECONDS", "ENDED_SECONDS", "YOUNG_SECONDS"),
    "gateway.edge.recorder": ("DRAIN_SECONDS",),
    "gateway.edge.client_socket": ("LOOK_SECONDS",),
    "gateway.edge.limits": ("SETTLE_SECONDS",),
    "gateway.conversation.response_queue": ("GATHER_SECONDS", "LATE_SECONDS"),
}
UNCOUNTED = "loop-watchdog"  # a thread that looks at the clock, and at every stack while the loop is slow

TraceFunction = Callable[[FrameType, str, Any], Any]


class StepCounter:
    """Calls and steps of every function; a generator or coroutine that goes on is a call, too."""

    def __init__(self) -> None:
        self._codes: dict[int, CodeType] = {}  # by their ids, which nothing else gets while they are held
        self._counts: dict[int, list[int]] = {}  # calls and steps
        self._tracers: dict[int, TraceFunction] = {}

    def trace(self, frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        """The trace function of a thread."""
        code = frame.f_code
        tracer = self._tracers.get(id(code)) or self._add(code)
        self._counts[id(code)][0] += 1
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return tracer

    def begin_thread(self, frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        """The same for a thread that has just begun."""
        if threading.current_thread().name == UNCOUNTED:
            sys.settrace(None)
            return None
        sys.settrace(self.trace)
        return self.trace(frame, event, argument)

    def _add(self, code: CodeType) -> TraceFunction:
        counts = self._counts.setdefault(id(code), [0, 0])

        def note(frame: FrameType, event: str, argument: object) -> TraceFunction:
            if event == "opcode":
                counts[1] += 1
            return note

        self._codes[id(code)] = code
        return self._tracers.setdefault(id(code), note)

    def list_totals(self) -> dict[str, list[int]]:
        """Calls and steps by function, of several functions of one name together."""
        totals: dict[str, list[int]] = {}
        for number, code in list(self._codes.items()):
            total = totals.setdefault(describe_code(code), [0, 0])
            calls, steps = self._counts[number]
            total[0] += calls
            total[1] += steps
        return totals


def describe_code(code: CodeType) -> str:
    """A function's file, below the place that it was imported from, and its name."""
    # A checkout that is installed where it lies need not be in the path.
    gateway = str(Path(str(importlib.import_module("gateway").__file__)).parents[1])
    places = [place for place in (*sys.path, gateway) if place and code.co_filename.startswith(f"{place}/")]
    return f"{code.co_filename[len(max(places, key=len, default='')) :].lstrip('/')} {code.co_qualname}"


def answer(counter: StepCounter, requests: int, answers: int) -> None:
    """A line for every line, until there are no more."""
    # Not by sys.stdin: a thread that waits there holds a lock which the interpreter needs to end.
    while os.read(requests, 4096):
        line = json.dumps(counter.list_totals()).encode() + b"\n"
        while line:
            line = line[os.write(answers, line) :]


def stretch_intervals() -> None:
    """Before anybody uses them; another checkout may not have all of them."""
    for name, intervals in STRETCHED.items():
        module = vars(importlib.import_module(name))
        module.update({one: SLOWNESS * module[one] for one in intervals if one in module})


def main() -> int:
    counter = StepCounter()
    threading.Thread(target=answer, args=(counter, 0, 1), daemon=True).start()
    threading.settrace(counter.begin_thread)
    sys.settrace(counter.trace)
    stretch_intervals()
    return int(importlib.import_module("gateway.cli").main())


if __name__ == "__main__":
    sys.exit(main())
