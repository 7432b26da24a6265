"""URIs of resources."""

import pytest

from gateway.edge.mcp.uris import ResourceAddress, make_uri, parse_uri


@pytest.mark.parametrize("identity", ["house/style", "orders/shop.order_status", "a/ü b?c&d"])
def test_a_resource_is_found_by_its_uri(identity: str) -> None:
    assert parse_uri(make_uri(identity)) == ResourceAddress(identity)


def test_a_part_of_a_resource_is_asked_for_in_the_query() -> None:
    assert parse_uri("context://house/style?offset=8000") == ResourceAddress("house/style", offset=8000)
    assert parse_uri("context://house/style?query=serial%20comma") == ResourceAddress("house/style", "serial comma")


@pytest.mark.parametrize(
    "uri",
    ["", "house/style", "http://house/style", "context://a/b?offset=-1", "context://a/b?offset=9999999999",
     "context://a/b?offset=٣", "context://a/b?other=1", "context://a/b?offset=1&query=x&query=y",
     "context://" + "a" * 8192],
)  # fmt: skip
def test_other_uris_are_none_of_ours(uri: str) -> None:
    assert parse_uri(uri) is None
