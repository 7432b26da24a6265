"""Candidates, a search result and a budget come in, a Selection goes out: placed, offered or dropped, with reasons.

Pure functions only.
"""
