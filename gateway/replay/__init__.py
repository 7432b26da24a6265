"""What would be sent under other policies: requests and receipts built again, compared, and never sent.

Nothing here is stored, served or kept: the snapshots, indexes and sessions of a replay end with it.
"""
