"""What speaks over sockets of its own is tested on both event loops: their transports differ in when they close."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

ON_BOTH_LOOPS = {"test_http_conformance", "test_http_interleavings", "test_http_pool", "test_upstreams_openai"}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    if item.path.stem in ON_BOTH_LOOPS:
        loops["uvloop"] = uvloop.new_event_loop
    return loops
