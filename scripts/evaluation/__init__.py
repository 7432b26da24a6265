"""Measures on a public data set what the search by meaning injects."""
