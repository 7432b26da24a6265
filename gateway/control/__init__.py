"""What callers of the management API and the command line want to read or change comes in.

Checked changes go out to the policy repository as one commit each; objects, versions, keys and bundles go back.
"""
