"""Providers through litellm: a chat request in OpenAI's wire format comes in, a reply in the same format goes out.

Only validated fields reach litellm, and its exceptions come out as replies or as `UpstreamError`.
"""
