"""Serves TensorZero's gateway, which its package contains; runs in the venv where that is installed.

Prints its address, then serves until its standard input closes: python tensorzero_server.py CONFIG
"""

import sys

from tensorzero.tensorzero import _start_http_gateway  # type: ignore[import-not-found]

running = _start_http_gateway(
    config_file=sys.argv[1], clickhouse_url=None, postgres_url=None, valkey_url=None, async_setup=False
)
print(running.base_url, flush=True)
sys.stdin.read()
