"""The management API of a whole gateway without a socket; every answer is held against the OpenAPI document."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from managing import Answer, ask, conforms

from gateway.app import Gateway
from gateway.domain.principal import Principal, Role
from gateway.edge.manage.app import Manage
from gateway.edge.manage.openapi import document
from gateway.edge.manage.patterns import segments
from gateway.settings import Settings

EDITOR = Principal("anna", role=Role.EDITOR)
ADMIN = Principal("root", role=Role.ADMIN)
CHAT = Principal("app", role=Role.CHAT)


class ManagedGateway:
    """Speaks to the API as any caller."""

    def __init__(self, manage: Manage) -> None:
        self.manage = manage
        self.document = document(manage.routes)

    async def ask(self, method: str, target: str, body: Any = None, by: Principal = EDITOR, **headers: str) -> Answer:
        answer = await ask(self.manage, method, target, body, by, **headers)
        if not (target.startswith("/export") and answer.status == 200):  # files have no schema
            conforms(self.document, method, self._template(method, target), answer)
        return answer

    def _template(self, method: str, target: str) -> str:
        path = segments(b"/api/v1" + target.partition("?")[0].encode(), b"/api/v1")
        routes = sorted(self.manage.routes, key=lambda route: route.pattern.rank)
        return next(route.pattern.template for route in routes if route.pattern.match(path) is not None)


@asynccontextmanager
async def managed(directory: Path, files: dict[str, Any]) -> AsyncGenerator[ManagedGateway]:
    settings = Settings.model_validate(
        {
            "policies": str(written(directory, files)),
            "store": "memory:",
            "secret": "a secret of the tests",
            "upstreams": {"demo": {"kind": "demo"}},
            "routes": [{"model": "*", "upstream": "demo"}],
            "defaults": {"model": "demo"},
            "semantic": {"enabled": False},
        }
    )
    gateway = await Gateway.open(settings)
    try:
        manage = gateway.router(draining=lambda: False).manage
        assert manage is not None
        yield ManagedGateway(await manage.built())
    finally:
        await gateway.close()


def written(directory: Path, files: dict[str, Any]) -> Path:
    (directory / "files.yaml").write_text(yaml.safe_dump(files, sort_keys=False))
    return directory
