"""How many different names were seen, in a bounded space: the k smallest hashes of them."""

from collections.abc import Iterable
from hashlib import blake2b

SKETCH_HASHES = 64  # up to so many names the count is exact, beyond that its standard error is 1/√62 = 13 %
HASH_BYTES = 8
_SPACE = float(256**HASH_BYTES)


def hash_name(*parts: str) -> bytes:
    """The hash of a name that consists of parts."""
    joined = "\0".join(parts).encode("utf-8", "surrogatepass")
    return blake2b(joined, digest_size=HASH_BYTES).digest()


def build_sketch(hashes: Iterable[bytes]) -> bytes:
    """The sketch of some hashes, each of HASH_BYTES."""
    return b"".join(sorted(set(hashes))[:SKETCH_HASHES])


def extend_sketch(sketch: bytes, hashes: set[bytes]) -> bytes:
    """The sketch with some more hashes; quick once it is full, since most of them are too large then."""
    if len(sketch) == SKETCH_HASHES * HASH_BYTES:
        largest = sketch[-HASH_BYTES:]
        hashes = {one for one in hashes if one < largest}
        if not hashes:
            return sketch
    return build_sketch(hashes.union(sketch[at : at + HASH_BYTES] for at in range(0, len(sketch), HASH_BYTES)))


def merge_sketches(sketches: Iterable[bytes]) -> bytes:
    """The sketch of everything that any of these has seen: the same as if one had seen it all."""
    seen: set[bytes] = set()
    for sketch in sketches:
        seen.update(sketch[at : at + HASH_BYTES] for at in range(0, len(sketch), HASH_BYTES))
    return build_sketch(seen)


def estimate_distinct(sketch: bytes) -> int:
    """How many different names a sketch has seen."""
    size = len(sketch) // HASH_BYTES
    if size < SKETCH_HASHES:
        return size
    largest = int.from_bytes(sketch[-HASH_BYTES:]) + 1
    return round((size - 1) * _SPACE / largest)
