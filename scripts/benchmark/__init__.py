"""What a request costs the gateway's process, next to bare relays: scripts/bench, docs/BENCHMARK.md."""
