"""What a call used, in each dialect's words."""

from typing import Any

Usage = dict[str, Any]


def read_count(usage: Usage, *path: str) -> int:
    """A number in a usage object; 0 where it is absent."""
    value: Any = usage
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def to_chat_usage(usage: Usage) -> Usage:
    """Anthropic's input tokens leave out what the cache read or wrote; chat's prompt tokens count everything."""
    written, read = read_count(usage, "cache_creation_input_tokens"), read_count(usage, "cache_read_input_tokens")
    asked, said = read_count(usage, "input_tokens") + written + read, read_count(usage, "output_tokens")
    built: Usage = {
        "prompt_tokens": asked,
        "completion_tokens": said,
        "total_tokens": asked + said,
        "prompt_tokens_details": {"cached_tokens": read},
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
    }
    if "output_tokens_details" in usage:
        thought = read_count(usage, "output_tokens_details", "thinking_tokens")
        built["completion_tokens_details"] = {"reasoning_tokens": thought}
    return built


def count_written(usage: Usage) -> int:
    """What a prompt cache wrote, as chat upstreams tell it."""
    told = read_count(usage, "prompt_tokens_details", "cache_write_tokens")
    return told or read_count(usage, "cache_creation_input_tokens")


def to_messages_usage(told: Any) -> Usage:
    usage = told if isinstance(told, dict) else {}
    read = read_count(usage, "prompt_tokens_details", "cached_tokens") or read_count(usage, "cache_read_input_tokens")
    written = count_written(usage)
    built: Usage = {
        "input_tokens": max(0, read_count(usage, "prompt_tokens") - read - written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": read_count(usage, "completion_tokens"),
    }
    if thought := read_count(usage, "completion_tokens_details", "reasoning_tokens"):
        built["output_tokens_details"] = {"thinking_tokens": thought}
    return built


def to_responses_usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    asked, said = read_count(usage, "prompt_tokens"), read_count(usage, "completion_tokens")
    return {
        "input_tokens": asked,
        "input_tokens_details": {
            "cached_tokens": read_count(usage, "prompt_tokens_details", "cached_tokens"),
            "cache_write_tokens": count_written(usage),
        },
        "output_tokens": said,
        "output_tokens_details": {
            "reasoning_tokens": read_count(usage, "completion_tokens_details", "reasoning_tokens")
        },
        "total_tokens": read_count(usage, "total_tokens") or asked + said,
    }
