"""Names of tools as models and policies may use them."""

import hashlib
import re

LONGEST_FUNCTION = 64  # characters; OpenAI's limit
SEPARATOR = "__"  # between a server and its tool

_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")


def clean_name(name: str) -> str:
    """The name with `_` for every character that no function name may have; a long one is cut and told apart."""
    cleaned = _FORBIDDEN.sub("_", name) or "_"
    return cleaned if len(cleaned) <= LONGEST_FUNCTION else shorten_name(cleaned, name)


def make_function_name(server: str, tool: str) -> str:
    """What a model calls the tool of a server."""
    whole = f"{server}{SEPARATOR}{_FORBIDDEN.sub('_', tool) or '_'}"
    return whole if len(whole) <= LONGEST_FUNCTION else shorten_name(whole, f"{server}{SEPARATOR}{tool}")


def shorten_name(name: str, told_apart_by: str) -> str:
    digest = hashlib.sha256(told_apart_by.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{name[: LONGEST_FUNCTION - 9]}_{digest}"
