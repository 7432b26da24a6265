"""Where recorded streams are cut: wherever bytes decide something, and between those places here and there."""

from zlib import crc32

from hypothesis import settings

EVERY_BYTE = settings().max_examples > 1000  # --hypothesis-profile=long
STRIDE = 7  # bytes between two cuts where nothing depends on them
NEAR = 4  # bytes before and behind the end of a line
LAST = 60  # bytes at the end of the stream, where it turns out to be complete
MOST = 600  # cuts of one stream, roughly: each takes the longer, the longer the stream is


def list_cuts(data: bytes) -> list[int]:
    """Places to cut at, from nothing to all: every byte around the ends of lines and at the end of the stream.

    Inside a line every seventh, from a place that differs from stream to stream: together they meet all of them. Of a
    long stream only some.
    """
    size = len(data)
    if EVERY_BYTE:
        return list(range(size + 1))
    ends = [at for at, byte in enumerate(data) if byte == ord("\n")]
    near = {at for end in ends for at in range(end - NEAR, end + NEAR + 1) if 0 <= at <= size}
    first = crc32(data)
    found = sorted({*near, *range(first % STRIDE, size, STRIDE)})
    step = len(found) // MOST + 1
    return sorted({0, *found[first % step :: step], *range(max(size - LAST, 0), size + 1)})
