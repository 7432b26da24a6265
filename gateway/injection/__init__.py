"""A Selection comes in; the exact text, its place in the messages and the tool schemas go out.

Bodies are changed without decoding what need not change.
"""
