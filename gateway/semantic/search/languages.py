"""How foreign a text is to an embedder that was trained on English: there the lexical score leads."""

import re

_LATIN_END = 0x024F  # the last code point of Latin with its extensions
_ACCENTED = re.compile("[\u00df-\u024f]")
# The commonest words tell languages apart even in a short question.
_ENGLISH = re.compile(
    r"\b(?:an?|and|are|be|can|do|for|from|have|how|i|in|is|it|me|my|of|on|that|the|this|to|what|with|you)\b"
)
_OTHERS = re.compile(
    r"\b(?:auf|das|den|der|des|die|eine?|für|im|ist|mit|nicht|sich|und|von|zu|con|del?|el|en|es|las?|los|para|por|que|"
    r"se|una?|che|di|non|per|sono|dans|du|est|et|il|les?|pour|sur|une|da|em|na|os?|uma?|het|van|een)\b"
)
FOREIGN_LATIN = 0.5


def foreignness(text: str) -> float:
    """0 for English or anything that gives no sign, .5 for another Latin language, up to 1 for other scripts."""
    letters = [letter for letter in text if letter.isalpha()]
    if not letters:
        return 0.0
    elsewhere = sum(ord(letter) > _LATIN_END for letter in letters) / len(letters)
    return max(elsewhere, FOREIGN_LATIN if _speaks_another_language(text) else 0.0)


def _speaks_another_language(text: str) -> bool:
    words = text.casefold()
    return len(_OTHERS.findall(words)) + bool(_ACCENTED.search(words)) > len(_ENGLISH.findall(words))
