"""Tools that the gateway runs itself: a call and the selection of its exchange come in, a text for the model goes out.

They list and read the resources that were not placed, and never reach beyond the selection.
"""
