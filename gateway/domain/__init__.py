"""The words of the product as frozen dataclasses, one file per noun; rooms meet through them.

Nothing comes in: this package imports nothing else of the gateway.
"""
