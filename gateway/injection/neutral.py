"""Text of resources, made unable to pass for the gateway's own markers or a model's control tokens.

This raises the effort of an injection through content; it does not make one impossible.
"""

import re

# Bidirectional controls reorder what a person sees; zero-width characters hide what a model reads.
_INVISIBLE = re.compile("[\u200b\u2060\ufeff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
# Joiners are part of emoji and of several scripts; between ASCII they only hide.
_STRAY_JOINER = re.compile("(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])")
_CONTROL_TOKEN = re.compile(r"<\|(\w[\w .-]{0,40})\|>")
_MARKER = re.compile(r"-{3,}(?=\s*(?:Context|Available Reference Materials|End)\s*(?:\[|-{3}))", re.IGNORECASE)


def neutral(text: str) -> str:
    """The same text for a reader, inert for a parser."""
    if not text.isascii():
        text = _STRAY_JOINER.sub("", _INVISIBLE.sub("", text))
    if "<|" in text:
        text = _CONTROL_TOKEN.sub(r"< |\1| >", text)
    return _MARKER.sub("- - -", text) if "---" in text else text


def one_line(text: str) -> str:
    """A name or description as it stands in a line of a block."""
    return " ".join(neutral(text).split())
