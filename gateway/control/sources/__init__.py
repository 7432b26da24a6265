"""Where content comes from: files in common formats go in, nodes with their places in the files come out.

Faults come out in between, so that a person sees all of them; nothing keeps more than one file, line or row in memory.
"""
