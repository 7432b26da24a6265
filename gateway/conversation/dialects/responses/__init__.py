"""OpenAI's responses: instructions and items in, items and typed events out.

A body or a stream of events comes in. Requests, turns and the client's view of them go out.
"""
