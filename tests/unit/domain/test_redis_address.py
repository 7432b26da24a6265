"""What a Redis URL says, and that nothing it holds is told."""

import pytest

from gateway.domain.redis_address import RedisAddress, redis_address


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost", "redis://localhost:6379/0"),
        ("redis://10.0.0.7:6380/2", "redis://10.0.0.7:6380/2"),
        ("redis://:horse@host/", "redis://host:6379/0"),
        ("rediss://user:horse@[::1]:7000/15", "rediss://[::1]:7000/15"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock?db=0"),
        ("unix://:horse@/run/redis%20a.sock?db=4", "unix:///run/redis a.sock?db=4"),
    ],
)
def test_an_address_is_shown_in_full_and_without_credentials(url: str, shown: str) -> None:
    address = redis_address(url)
    assert str(address) == shown
    assert "horse" not in repr(address)
    assert "user" not in repr(address).replace("username", "")


def test_credentials_are_unquoted() -> None:
    address = redis_address("redis://us%40er:p%2Fw%3A%25@host")
    assert (address.username, address.password) == ("us@er", "p/w:%")


def test_empty_credentials_are_none() -> None:
    assert redis_address("redis://:@host") == RedisAddress("redis", "host", 6379, "", 0)


@pytest.mark.parametrize(
    "url",
    [
        "redis:",
        "redis://",
        "redis:///1",
        "redis://:horse@",
        "redis://host:port",
        "redis://host:0",
        "redis://host:70000",
        "redis://host/one",
        "redis://host/-1",
        "redis://host/١",
        "redis://host?socket_timeout=9",
        "redis://:pass/horse@host",
        "redis://:pass#horse@host",
        "redis://:pass?horse@host",
        "redis://[::1",
        f"redis://{'x' * 70}",
        "unix://",
        "unix:///",
        "unix://host/run/redis.sock",
        "unix:///run/redis.sock?db=x",
        "unix:///run/redis.sock?password=horse",
        "unix:///run/redis.sock?horse",
        "http://host",
    ],
)
def test_anything_else_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="needs the form redis://") as caught:
        redis_address(url)
    assert "horse" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
