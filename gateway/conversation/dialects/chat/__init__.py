"""OpenAI's chat completions, the dialect in which the gateway's own tools are written.

A body or a stream of chunks comes in. Requests, turns and the client's view of them go out.
"""
