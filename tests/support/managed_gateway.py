"""The management API of a whole gateway without a socket; every answer is held against the OpenAPI document."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from gateway.app import Gateway
from gateway.domain.principal import Principal, Role
from gateway.settings import Settings
from tests.support.api_documents import get_document
from tests.support.management_asgi import Answer, ask, check_conforms, find_template
from tests.support.yaml_texts import to_yaml

EDITOR = Principal("anna", role=Role.EDITOR)
ADMIN = Principal("root", role=Role.ADMIN)
CHAT = Principal("app", role=Role.CHAT)


class ManagedGateway:
    """Speaks to the API as any caller."""

    def __init__(self, manage: Starlette) -> None:
        self.manage = manage
        self.document = get_document(manage)

    async def ask(self, method: str, target: str, body: Any = None, by: Principal = EDITOR, **headers: str) -> Answer:
        answer = await ask(self.manage, method, target, body, by, **headers)
        if not (target.startswith("/export") and answer.status == 200):  # files have no schema
            check_conforms(self.document, method, find_template(self.manage, method, target), answer)
        return answer


@asynccontextmanager
async def running_management(directory: Path, files: dict[str, Any], **options: Any) -> AsyncGenerator[ManagedGateway]:
    settings = Settings.model_validate(
        {
            "policies": str(write_policies(directory, files)),
            "store": "memory:",
            "secret": "a secret of the tests",
            "upstreams": {"demo": {"kind": "demo"}},
            "routes": [{"model": "*", "upstream": "demo"}],
            "defaults": {"model": "demo"},
            "semantic": {"enabled": False},
            **options,
        }
    )
    gateway = await Gateway.open(settings)
    try:
        yield ManagedGateway(gateway.build_management())
    finally:
        await gateway.close()


def write_policies(directory: Path, files: dict[str, Any]) -> Path:
    (directory / "files.yaml").write_text(to_yaml(files))
    return directory
