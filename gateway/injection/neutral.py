"""Texts of authors must not pass for the gateway's markers or a chat template's tokens, nor for look-alikes of those.

Every pattern is written in plain characters and compiled with all that look like them: full-width and mathematical
forms, letters of other scripts, other dashes and brackets, with invisible characters in between. Only what matches is
changed. Quantifiers are possessive or bounded, so the time is linear.
"""

import re
from functools import cache
from unicodedata import normalize

# Bidirectional controls reorder what a person sees; zero-width characters hide what a model reads.
_INVISIBLE = re.compile("[\u200b\u2060\ufeff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
# Joiners are part of emoji and of several scripts; between ASCII they only hide.
_STRAY_JOINER = re.compile("(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])")

# What nobody sees, but other texts need: soft hyphens, joiners, accents, variation selectors, fillers.
UNSEEN = "\x00\u00ad\u0300-\u036f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200c\u200d\u2061-\u2064\u206a-\u206f"
UNSEEN += "\u3164\ufe00-\ufe0f\uffa0\ufff9-\ufffb\U000e0100-\U000e01ef"
SKIP = f"[{UNSEEN}]*+"
SPACE = rf"[\s\u2800{UNSEEN}]"

# Compatibility forms are not here: Unicode's own tables have them.
HOMOGLYPHS = {
    "a": "аαɑΑАᎪ", "b": "ЬᏏβВΒᏴ", "c": "сϲСϹᏟᴄ", "d": "ԁɗᎠ", "e": "еєεЕΕᎬ", "f": "ғϝ", "g": "ɡԍᏀ", "h": "һНΗᎻ",
    "i": "іιıІΙӏ", "j": "јЈ", "k": "кκКΚᏦ", "l": "ӏІΙⅼᏞ", "m": "мМΜᎷ", "n": "пոηΝɴ", "o": "оοσОΟօ", "p": "рρРΡᏢ",
    "q": "ԛԚ", "r": "гᴦᎡ", "s": "ѕЅᏚ", "t": "тτТΤᎢ", "u": "υս", "v": "νѵᏙ", "w": "ѡԝᎳ", "x": "хχХΧ", "y": "уγУΥү",
    "z": "ᴢΖᏃ",
    "-": "‐‑‒–—―⁃−─━╌╍⸺⸻", "|": "│┃∣ǀ¦❘❙❚￨‖", "_": "▁‗ˍ", "[": "【〔⟦❲", "/": "⁄∕⧸╱",
    "<": "‹〈⟨❮❬˂ᐸ«", ">": "›〉⟩❯❭˃ᐳ»",
}  # fmt: skip
COMPATIBLE = (
    (0x2070, 0x209C), (0x2100, 0x218B), (0x2460, 0x24EA), (0xFE4D, 0xFE6B), (0xFF01, 0xFF5E), (0x1D400, 0x1D7FF),
    (0x1F110, 0x1F169),
)  # fmt: skip
LONG_DASHES = "—―⸺⸻━─"

ELLIPSIS = "…"  # in the mark of every text that was cut: it looks like nothing else

LABELS = (
    *("Context", "Available Reference Materials", "End", "Focused Content", "Related Content", "Connected Items"),
    "Task Content",
    *("Recent Activity", "Knowledge"),
)
TEMPLATE_WORDS = frozenset(
    re.findall(
        r"\w+",
        """im_start im_end im_sep endoftext startoftext endofprompt begin_of_text end_of_text begin_of_sentence
        end_of_sentence start_header_id end_header_id eot_id eom_id system user assistant tool python_tag channel
        message start end call return constrain fim_prefix fim_middle fim_suffix""",
    )
)


def neutralize(text: str) -> str:
    """The text with control tokens, block markers and their look-alikes made harmless; all else stays as it is."""
    if not text.isascii() and not text.replace(ELLIPSIS, "").isascii():
        return get_patterns().neutralize(_STRAY_JOINER.sub("", _INVISIBLE.sub("", text)))
    return get_patterns().neutralize(text) if "---" in text or ("|" in text and "<" in text) else text


class LookalikePatterns:
    """The patterns; to compile them takes a moment, so that is done when a text needs them."""

    def __init__(self) -> None:
        self._alike = list_lookalikes()
        self._dashes = dashes = self._alike["-"]
        # Runs of dashes are found one after the other and as a whole; what follows each of them is looked at once.
        self._run = re.compile(f"[{re.escape(dashes)}{UNSEEN}]{{2,}}+")
        labels = "|".join(map(self._match_words, LABELS))
        follower = f"{self._match('[')}|[{re.escape(dashes)}]{{2}}"
        self._label = re.compile(f"{SPACE}*+(?:{labels}){SPACE}*+(?:{follower})")
        inner = rf"[\w\s\u2800./{re.escape(self._alike['_'] + dashes + self._alike['/'])}{UNSEEN}]"
        token = f"(?P<token>{self._match('|')}(?P<name>{inner}{{1,80}}){self._match('|')})"
        self._token = re.compile(f"{self._match('<')}{SKIP}{token}{SKIP}(?={self._match('>')})")
        self._plain = {ord(like): plain for plain, others in self._alike.items() for like in others}

    def neutralize(self, text: str) -> str:
        # To look for characters is much faster than a pattern, and most texts have none of these.
        if has_any(text, self._alike["|"]) and has_any(text, self._alike["<"]):
            text = self._token.sub(self._break_token, text)
        return self._run.sub(self._break_marker, text) if has_any(text, self._dashes) else text

    def _break_token(self, found: re.Match[str]) -> str:
        """A space behind the first bracket and before the last; `f <| x |> g` is code and not a token."""
        whole, name = found[0], found["name"]
        plain = name.strip() == name and "\n" not in name
        if not plain and self._fold(name) not in TEMPLATE_WORDS:
            return whole
        start = found.start("token") - found.start()
        return f"{whole[:start]} {whole[start:]} "

    def _break_marker(self, found: re.Match[str]) -> str:
        run = found[0]
        dashes = [character for character in run if character in self._dashes]
        # Two hyphens open a comment in many languages; two long dashes look like a marker.
        enough = len(dashes) >= 3 or sum(character in LONG_DASHES for character in dashes) >= 2
        return "- - -" if enough and self._label.match(found.string, found.end()) else run

    def _fold(self, text: str) -> str:
        """A short text in the plain characters that it looks like, without spaces and slashes."""
        return re.sub(rf"[\s\u2800/{UNSEEN}]", "", text.translate(self._plain)).lower()

    def _match(self, word: str) -> str:
        """A pattern for a word and everything that looks like it."""
        return SKIP.join(f"[{re.escape(self._alike.get(letter, letter))}]" for letter in word.lower())

    def _match_words(self, words: str) -> str:
        return f"{SPACE}++".join(map(self._match, words.split()))


@cache
def get_patterns() -> LookalikePatterns:
    return LookalikePatterns()


def list_lookalikes() -> dict[str, str]:
    """The characters that look like each ASCII one, its own cases included."""
    found = {character: character.upper() + character + others for character, others in HOMOGLYPHS.items()}
    for first, last in COMPATIBLE:
        for code in range(first, last + 1):
            plain = normalize("NFKC", chr(code)).lower()
            if plain in found and len(plain) == 1:
                found[plain] += chr(code)
    return found


def has_any(text: str, characters: str) -> bool:
    return any(character in text for character in characters)
