"""Storage engines. Key-values, versioned records and vectors come in through the protocols in `protocols.py`; they go
out again from memory, a SQLite file or a Redis server, whichever the store URL names (`open.py`)."""
