"""One module per client: how its users would write what the tests ask for."""
