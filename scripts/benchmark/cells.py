"""What is measured, and what each figure may be at most (the goals for the full product)."""

from dataclasses import dataclass, replace
from enum import Enum

from scripts.benchmark import dialect_payloads, payloads


class Kind(Enum):
    """What happens to a request on its way, and the most that it may cost in floors."""

    RELAY = "relay"
    INJECTED = "4 KB injected"
    TOOLS = "4 KB injected, tools registered"

    @property
    def limit(self) -> float:
        return {Kind.RELAY: 1.2, Kind.INJECTED: 1.3, Kind.TOOLS: 1.5}[self]


BEFORE_LIMIT = 1.03  # what a busy machine adds to two gateways that cost the same
START_SECONDS = 0.6
RESIDENT_MB = 70
CONCURRENT = 32


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of a request, and how many make a run of roughly half a second, alone and at c=32."""

    name: str
    size: int
    model: str
    streams: bool
    alone: int
    together: int

    def body(self, model: str = "{}", dialect: str = "chat") -> bytes:
        """A request; `model` is the way to name the model."""
        named = model.format(self.model)
        return dialect_payloads.build_request(dialect, self.size, named, stream=self.streams)


SMALL = Shape("1 KB", 1024, payloads.BURST, False, 2000, 8000)
LARGE = Shape("30 KB", 30 * 1024, payloads.BURST, False, 1200, 4800)
HUGE = Shape("200 KB", 200 * 1024, payloads.BURST, False, 320, 1280)
STREAM = Shape("64-chunk stream", 1024, payloads.BURST, True, 480, 1920)
# At full speed a gateway reads the 64 chunks in 4 to 28 pieces, as it happens and as fast as they are written.
PIECES = replace(STREAM, name="64-chunk stream in 16 pieces", model=payloads.PIECES)
SLOW_PIECES = replace(STREAM, model=payloads.SLOW_PIECES)
TOKENS = Shape("64-chunk stream, chunk by chunk", 1024, payloads.PACED, True, 10, 64)


@dataclass(frozen=True, slots=True)
class Cell:
    """One line of the table."""

    kind: Kind
    shape: Shape
    concurrency: int

    @property
    def name(self) -> str:
        return f"{self.shape.name}, {self.kind.value}"

    def requests(self, scale: float) -> int:
        """How many requests one run takes; every client has at least one."""
        usual = self.shape.together if self.concurrency > 1 else self.shape.alone
        return max(self.concurrency, round(usual * scale))


CELLS = tuple(
    Cell(kind, shape, concurrency)
    for shape in (SMALL, LARGE, STREAM, TOKENS)
    for kind in Kind
    if shape.streams or kind is not Kind.TOOLS
    for concurrency in (1, CONCURRENT)
)

# Beside other gateways: everyone injects who can, so there is one kind; columns are servers.
PEER_CELLS = tuple(
    Cell(Kind.INJECTED, shape, concurrency) for shape in (SMALL, LARGE, STREAM, HUGE) for concurrency in (1, CONCURRENT)
)
DIALECT_CELLS = tuple(Cell(kind, shape, CONCURRENT) for shape in (SMALL, LARGE, PIECES) for kind in Kind)
STEP_CELLS = tuple(Cell(kind, shape, CONCURRENT) for shape in (SMALL, LARGE, SLOW_PIECES) for kind in Kind)
DIALECT_LIMIT = 1.2  # of a request in another dialect, in chat requests of the same size
FEATURE_CELLS = (Cell(Kind.INJECTED, SMALL, CONCURRENT), Cell(Kind.INJECTED, STREAM, CONCURRENT))
FEATURE_STEP_CELLS = tuple(Cell(Kind.INJECTED, shape, CONCURRENT) for shape in (SMALL, SLOW_PIECES))
