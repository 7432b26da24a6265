"""What the requirements ask for, row by row, in the requests of a running gateway: `python -m scripts.seed_rows`."""
