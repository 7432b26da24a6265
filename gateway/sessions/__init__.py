"""Conversations that clients name: what was added and removed by hand, what the model fetched, settings, content.

Only differences from the current policies are stored, so that a change of a policy reaches every session at once.
"""
