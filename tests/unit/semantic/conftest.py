"""Puts this folder on the path, so that the tests below it can import the harness."""
