"""Transport: a request in OpenAI's wire format comes in, an open reply in the same format goes out.

`routes.py` chooses the upstream, retries and falls back; `openai.py`, `litellm/` and `demo/` are the kinds of upstream.
"""
