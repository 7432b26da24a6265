"""One dialect for another, without I/O, with chat completions as the hub: requests one way, replies the other.

What a request cannot carry is refused by name, never dropped (`uncarried.py`, docs/TRANSLATIONS.md).
"""
