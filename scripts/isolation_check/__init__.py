"""Random callers, nodes and resources: what each can reach by any path, against an oracle that shares no code."""
