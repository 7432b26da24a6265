"""Garbage collection around policies, which are many objects that live long."""

import gc


def freeze_gc(*, full: bool) -> None:
    """Exempt everything that is alive now from garbage collection.

    A full collection would walk the whole snapshot and stop the event loop for it (35 ms for a big one). Garbage that
    is frozen along with it would stay for ever, so now and then everything is collected all the same.
    """
    if full:
        gc.unfreeze()
        gc.collect()
    else:
        gc.collect(1)  # only young objects: well under a millisecond
    gc.freeze()
