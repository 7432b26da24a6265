"""The built-in demo model: a chat request with its injected context comes in, an answer that quotes it goes out.

It is deterministic and needs neither a key nor a network.
"""
