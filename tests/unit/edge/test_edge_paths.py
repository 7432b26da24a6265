"""One spelling per path."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.paths import normalize_path
from gateway.errors import InvalidRequest


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"/v1/chat/completions", "/v1/chat/completions"),
        (b"/v1/chat/completions/", "/v1/chat/completions"),
        (b"//v1///chat//completions", "/v1/chat/completions"),
        (b"/v1/./chat/../embeddings", "/v1/embeddings"),
        (b"/v1/audio/%2e%2e/files", "/v1/files"),
        (b"/v1/audio/%2E./files", "/v1/files"),
        (b"/../../v1/files", "/v1/files"),
        (b"/v1/%65mbeddings", "/v1/embeddings"),
        (b"/v1/a%3ab%20c", "/v1/a%3Ab%20c"),
        (b"/v1/%252e%252e/files", "/v1/%252e%252e/files"),
        (b"/v1/.hidden", "/v1/.hidden"),
        (b"/v1/models/", "/v1/models"),
        (b"/v1/models/agent:writer", "/v1/models/agent:writer"),
        (b"/v1/models/meta%2Fllama", "/v1/models/meta%2Fllama"),
        (b"/", "/"),
        (b"", ""),
        (b"/..", "/"),
    ],
)
def test_a_path_has_one_spelling(raw, path):
    assert normalize_path(raw) == path


@pytest.mark.parametrize(
    "raw", [b"/v1/audio%2Ffiles", b"/v1/a%2f..%2ffiles", b"/v1/a%5Cb", b"/v1/%00", b"/v1/%", b"/v1/%zz"]
)
def test_an_escape_that_servers_read_differently_is_refused(raw):
    with pytest.raises(InvalidRequest):
        normalize_path(raw)


@given(st.lists(st.sampled_from([b"/", b".", b"..", b"v1", b"%2e", b"%41", b"%3f", b"a", b"models"]), max_size=12))
def test_normalising_twice_changes_nothing(pieces):
    once = normalize_path(b"/" + b"".join(pieces))
    assert normalize_path(once.encode()) == once
    if not once.startswith("/v1/models/"):
        assert not {"", ".", ".."} & set(once.split("/")[1:]) or once == "/"
