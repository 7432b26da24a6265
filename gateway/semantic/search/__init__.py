"""A query and the resources that its caller may see come in. The picks worth injecting go out, each with a reason."""
