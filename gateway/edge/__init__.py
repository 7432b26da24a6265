"""HTTP comes in, HTTP goes out: connections, access, limits, endpoints, errors, health, metrics, logs.

Chat requests go straight to the pipeline; everything else is a starlette app (`site.py`).
"""
