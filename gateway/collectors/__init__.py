"""A scope comes in, Candidates go out, each with the reason why it is proposed.

Collectors filter by permission before anything is ranked; nothing has been paid for yet.
"""
