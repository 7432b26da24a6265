"""Clients that leave in the middle of a request."""
