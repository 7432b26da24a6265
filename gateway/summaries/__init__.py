"""Texts come in, summaries of a given size go out: written by a model in the background, kept in the store.

Rooms above see only `Summaries`, and requests never wait for a model.
"""
