"""Patterns of names, in which `*` stands for any characters."""


def matches_pattern(pattern: str, name: str) -> bool:
    """Whether `name` matches `pattern`; linear, since clients choose names."""
    first, *middle = pattern.split("*")
    if not middle:
        return name == pattern
    last = middle.pop()
    if len(name) < len(first) + len(last) or not (name.startswith(first) and name.endswith(last)):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
