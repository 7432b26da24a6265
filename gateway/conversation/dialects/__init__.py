"""The dialects of clients, each a folder with the same pieces: request, placement, tools, reply, stream, history.

A client's bytes come in; the rooms and the turn loop get what they ask for. What the client sees goes out in its own
dialect.
"""
