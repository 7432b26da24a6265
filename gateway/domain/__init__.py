"""The words of the product as frozen structs, one file per noun; rooms meet through them.

Nothing comes in: this package imports nothing else of the gateway.
"""
