"""How one chat request walks through the source; `scripts/walk` runs it."""
