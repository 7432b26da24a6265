"""Server-sent events as bytes: finding where events end, and what they carry."""

DONE = b"[DONE]"
DONE_EVENT = b"data: [DONE]\n\n"
MAX_EVENT_BYTES = 16 * 1024 * 1024  # bytes of an event that is still waited for


def find_events_end(data: bytes) -> int:
    """How many leading bytes of `data` are whole events.

    Lines end in LF or CRLF only: JSON may carry U+2028 and U+0085, which a text splitter would cut at.
    """
    lf, crlf = data.rfind(b"\n\n"), data.rfind(b"\n\r\n")
    return 0 if lf < 0 > crlf else max(lf + 2, crlf + 3 if crlf >= 0 else 0)


def split_events(data: bytes) -> list[bytes]:
    """Whole events, each with the blank line that ends it."""
    if b"\r" not in data:
        return [event + b"\n\n" for event in data.split(b"\n\n")[:-1]]
    found = []
    start = 0
    while start < len(data):
        lf, crlf = data.find(b"\n\n", start), data.find(b"\n\r\n", start)
        if lf < 0 and crlf < 0:
            break
        end = crlf + 3 if lf < 0 or 0 <= crlf < lf else lf + 2
        found.append(data[start:end])
        start = end
    return found


def read_payload(event: bytes) -> bytes | None:
    """The joined `data:` lines of an event; None for a comment or an event without data."""
    if event.startswith(b"data: ") and event.count(b"\n") == 2:
        return event[6:].strip()
    lines = [line[5:].strip() for line in event.replace(b"\r\n", b"\n").split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None


def encode_event(data: bytes) -> bytes:
    """One event that carries `data`."""
    return b"data: " + data + b"\n\n"
