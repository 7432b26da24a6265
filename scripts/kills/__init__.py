"""What a kill -9 costs: a writer acknowledges, dies at a random moment, and the file is asked what it still has."""
