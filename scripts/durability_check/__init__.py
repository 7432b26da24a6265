"""What a kill -9 costs: a writer acknowledges commits, is killed at a random moment, and the file is inspected."""
