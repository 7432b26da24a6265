"""Unexpected failures of endpoints: answered once, logged once, and the connection goes on."""

import logging
from typing import Any

import orjson
import pytest

from gateway.edge.access import AccessControl, HostCheck
from gateway.edge.auth import Authenticator
from gateway.edge.health import HealthEndpoint
from gateway.edge.metrics import Metrics
from gateway.edge.models import ModelsEndpoint
from gateway.edge.site import SiteApps, build_site
from gateway.settings import AuthSettings
from tests.support.fixed_policies import FixedPolicies


class BrokenModels(ModelsEndpoint):
    async def list(self, request: Any) -> Any:
        raise ZeroDivisionError("inner detail")


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("not reached")


async def refuse(request: Any) -> bool:
    return False


async def test_a_bug_in_an_endpoint_is_a_500_in_our_shape_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    policies = FixedPolicies()
    site = build_site(
        access=AccessControl(HostCheck([]), Authenticator(AuthSettings())),
        health=HealthEndpoint(policies, lambda: True, lambda: False, dict, refuse),
        metrics=Metrics(),
        models=BrokenModels({}, policies),
        apps=SiteApps(nothing, nothing),
    )
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/v1/models",
        "raw_path": b"/v1/models",
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }
    with caplog.at_level(logging.ERROR):
        await site(scope, receive, send)  # raising once more would cost the client its connection
    error = orjson.loads(sent[1]["body"])["error"]
    assert (sent[0]["status"], error["code"], len(caplog.records)) == (500, "internal_error", 1)
    assert "inner detail" not in error["message"]
