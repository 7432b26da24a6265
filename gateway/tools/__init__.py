"""A call of a tool comes in, the text of its result goes out: MCP servers and HTTP endpoints.

Servers are connected to in the background, one connection per workspace; their lists of tools become resources.
"""
