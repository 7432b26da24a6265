"""Questions come in, passages go out: what search endpoints and plugins find, bounded, cached and shared fairly.

Rooms above see only `Retrievers`; an endpoint of a policy is asked only where the guard of links admits it.
"""
