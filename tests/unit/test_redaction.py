"""Secrets are redacted as a whole, and nothing else is."""

import time

import pytest

from gateway.redaction import REDACTED, Redactor, build_redactor
from gateway.settings import Settings


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer s3cr3t-value",
        "Authorization: Basic s3cr3t-value",
        "bearer s3cr3t-value, then",
        "sk-s3cr3t-value",
        "sk-proj-s3cr3t-value_1",
        "x-context-key: s3cr3t-value",
        '{"api_key": "s3cr3t-value"}',
        "api_key='s3cr3t-value'",
        "authorization=s3cr3t-value",
        "redis://user:s3cr3t-value@cache:6379/0",
        "redis://:s3cr3t-value@cache:6379/0",
        "password=s3cr3t-value",
        "cgw_s3cr3t-value-of-a-key",
    ],
)
def test_what_looks_like_a_credential_is_redacted(text):
    assert "s3cr3t" not in Redactor().redact(text)
    assert REDACTED in Redactor().redact(text)


@pytest.mark.parametrize(
    "end", ["/rest", ".rest", ",rest", ";rest", "=rest", "+rest", "%20rest", "\\rest", "érest", ":rest"]
)
@pytest.mark.parametrize("start", ["sk-s3cr3tvalue", "Bearer s3cr3t", "api_key: s3cr3t"])
def test_no_rest_of_a_credential_is_left(start, end):
    assert "rest" not in Redactor().redact(f"the key {start}{end} is wrong")
    assert Redactor().redact(f"the key {start}{end} is wrong").endswith(" is wrong")


def test_ordinary_text_stays_as_it_is():
    text = "The task-runner asked for risk-assessment of key a.yaml:3 without a bearer; see https://example.com/a@b"
    assert Redactor(["tiny", "s3cr3t-of-upstream"]).redact(text) == text


@pytest.mark.parametrize("around", ["{}", "x{}", "{}y", "https://host/{}/path", "user:{}@host", "({})", "a={},b=2"])
def test_a_known_secret_is_redacted_with_the_word_around_it(around):
    redacted = Redactor(["k3y/of+upstream"]).redact(f"before {around.format('k3y/of+upstream')} after")
    assert redacted == f"before {REDACTED} after"


def test_several_known_secrets_in_one_text():
    redactor = Redactor(["first-secret", "first-secret-longer", "second secret"])
    text = "a first-secret, b xfirst-secret-longerx first-secret\tc second secret!"
    assert redactor.redact(text) == f"a {REDACTED} b {REDACTED} {REDACTED}\tc {REDACTED}"


def test_a_short_secret_is_redacted_only_where_it_stands_alone():
    redactor = Redactor(["demo", ""])
    text = "upstream: demonstration, demo-model, demo/x, xdemo"
    assert redactor.redact(f"the demo {text}") == f"the {REDACTED} {text}"
    assert redactor.redact('key "demo", key=demo.') == f'key "{REDACTED}", {REDACTED}.'


def test_the_secrets_of_a_configuration_are_known():
    settings = Settings.model_validate(
        {
            "store": "redis://user:st%2Fore-password@cache:6379/0",
            "secret": "the-gateway-secret",
            "upstreams": {
                "a": {
                    "kind": "openai",
                    "base_url": "http://a/v1",
                    "api_key": "plain-upstream-key",
                    "headers": {"x-api-key": "header-upstream-key", "x-version": "2024-01-01-beta"},
                }
            },
            "routes": [],
            "semantic": {
                "embedder": {"kind": "openai", "base_url": "http://e", "model": "m", "api_key": "embedder-key"}
            },
        }
    )
    redact = build_redactor(settings).redact
    secrets = ["st%2Fore-password", "st/ore-password", "the-gateway-secret", "plain-upstream-key"]
    for secret in [*secrets, "header-upstream-key", "embedder-key"]:
        assert redact(f"<{secret}> failed") == f"<{REDACTED}> failed"
    assert redact("2024-01-01-beta") == "2024-01-01-beta"


@pytest.mark.parametrize(
    "family", ["a://", "Bearer ", "Bearer   ", "api_key", "api_key ", "api_key: ", "sk-", "x", "=", "@", "known-secret"]
)
def test_redacting_takes_linear_time(family):
    def measure(size):
        text = family * (size // len(family))
        began = time.process_time()
        Redactor(["known-secret", "tiny"]).redact(text)
        return time.process_time() - began

    small = max(min(measure(50_000) for _ in range(3)), 0.002)
    assert measure(400_000) < small * 8 * 4
