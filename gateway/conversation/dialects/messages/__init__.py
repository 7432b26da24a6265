"""Anthropic's Messages.

A body or a stream of events comes in. Requests, turns and the client's view of them go out.
"""
