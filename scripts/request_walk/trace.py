"""What is counted while a request is served: files entered, switches between files, walks over the headers."""

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

# Set where background work is started: the tasks and threads that it starts inherit the context.
IN_BACKGROUND: ContextVar[bool] = ContextVar("in_background", default=False)

Header = tuple[bytes, bytes]


class CountedHeaders(list[Header]):
    """Raw headers that know how often somebody began to walk over them; making a copy is a walk too."""

    walks = 0

    def __iter__(self) -> Iterator[Header]:
        self.walks += 1
        return super().__iter__()


@dataclass
class Walk:
    """The path of one request through the files of a package."""

    calls: Counter[str] = field(default_factory=Counter)  # by file
    switches: int = 0
    header_walks: int = 0
    last: dict[int, str] = field(default_factory=dict)  # the file that each thread entered last

    def enter(self, file: str, *, continues: bool = True) -> None:
        """Note a call; one that does not continue what its thread did before is no switch."""
        thread = threading.get_ident()
        if continues and self.last.get(thread, file) != file:
            self.switches += 1
        self.last[thread] = file
        self.calls[file] += 1


class CallTracer:
    """A profile function for this thread and for every thread that is started after `install`."""

    def __init__(self) -> None:
        self._package = ""
        self._walk: Walk | None = None

    def install(self) -> None:
        sys.setprofile(self._note)
        threading.setprofile(self._note)

    @contextmanager
    def follow(self, package: Path) -> Iterator[Walk]:
        """Note the calls into files of `package` until the block ends."""
        walk = Walk()
        self._package, self._walk = f"{package}/", walk
        try:
            yield walk
        finally:
            self._walk = None

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        walk = self._walk
        if walk is None or event != "call":
            return
        file = frame.f_code.co_filename
        if file.startswith(self._package) and not IN_BACKGROUND.get():
            walk.enter(file[len(self._package) :], continues=not self._begins_job(frame))

    def _begins_job(self, frame: FrameType) -> bool:
        """Whether this is a pool thread's next job. Which thread takes a job is chance and must not be counted."""
        if threading.current_thread() is threading.main_thread():
            return False
        caller = frame.f_back
        while caller is not None:
            if caller.f_code.co_filename.startswith(self._package):
                return False
            caller = caller.f_back
        return True
