"""Resources and an embedder come in. An index of their passages, vectors and words goes out, and is kept up to date."""
