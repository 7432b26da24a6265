"""Measures on a public data set what semantic search injects."""
