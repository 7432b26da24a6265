"""The rows about content, knowledge and tasks that must have a check."""

# By section of the requirements.
_REQUIRED = {
    "000.14": "4 5",
    "000.15": "6",
    "001.1": "2 3 6 10 13 14 15 16 17 18 24",
    "001.2": "1 2 3 4 5 6 8 9 10 11 12",
    "001.3": "1 2 3 4 5 6",
    "001.4": "6 7",
    "001.5": "1 3",
    "001.6": "2 4 6 7",
    "001.7": "1 2 3 6 9",
    "002.1": "1 3 4 5",
    "002.2": "1 2 3 4 5 6 7 8 9 10 11 14 15",
    "002.3": "1 2 3 5 6 7",
    "002.4": "1 3 5 6 7 8 9",
    "003.1": "1 2 3 4 5 6 8 9 11 12 14",
    "003.2": "1 2 3 4 5 6 8 9 10",
}
REQUIRED_ROWS = frozenset(f"{section}.{number}" for section, numbers in _REQUIRED.items() for number in numbers.split())
