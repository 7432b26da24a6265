"""Modules that requests may need and a start does not: each is imported where it is used, and here ahead of that.

A gateway loads them in a thread once it listens, a supervisor before it forks, so that its workers share them.
"""

from importlib import import_module

from gateway.scopes.context_request import ContextObject

LATE_MODULES = (
    "regex",  # of the token counter
    "gateway.extraction.html",
    "gateway.site_composition",  # everything but chat, with starlette
    "gateway.upstreams.translation.translated",
)


def load_late_modules() -> None:
    """Import what is not there yet, and build the validator of what chats bring along; raises ImportError."""
    for name in LATE_MODULES:
        import_module(name)
    ContextObject.model_rebuild()
