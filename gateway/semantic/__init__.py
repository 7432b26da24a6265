"""The policies of all workspaces and queries come in. The resources that are relevant to a query go out.

`model` turns text into vectors, `index` makes resources searchable, `search` turns a query into picks.
"""
