"""Builds the embedding model from published weights; `scripts/model` runs it when the gateway is installed."""
