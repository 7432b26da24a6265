"""A management API over real policies in memory; every answer is held against the OpenAPI document."""

from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from gateway.control.services import ControlServices
from gateway.domain.principal import Principal, Role
from gateway.edge.manage.app import build_api_app
from gateway.edge.manage.contexts import build_context_routes
from gateway.edge.manage.drafts import DraftListRoutes
from gateway.edge.manage.objects import AGENT_MODELS, PROFILE_MODELS, PROMPT_MODELS, RECIPE_MODELS, build_object_routes
from gateway.edge.manage.resources import ResourceRoutes
from gateway.policies.context_compiler import PolicySource
from gateway.policies.repository import PolicyRepository
from gateway.resources.registry import load_registry
from gateway.settings import LimitSettings
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.stores.memory_records import MemoryRecordStore
from tests.support.api_documents import get_document
from tests.support.management_asgi import Answer, ask, check_conforms, find_template
from tests.support.yaml_texts import to_yaml

FILES = {
    "contexts": {"house": {"resources": {"voice": {"type": "text", "data": {"content": "Write plainly."}}}}},
    "profiles": {"writing": {"contexts": "house", "budget": 4000}},
}
ANNA = Principal("anna", role=Role.EDITOR)
TEXT = {"type": "text", "data": {"content": "Be kind."}}


class NoMaterials:
    def file(self, path: Path) -> str:
        return path.read_text()

    def link(self, url: str) -> str | None:
        return None


class ManagedPolicies:
    """Speaks to the API as one caller."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.records = MemoryRecordStore()
        self.policies = self.node()
        self.services = ControlServices.build(self.policies, self.records, MemoryEphemeralStore())
        self.manage = build_api(self.services)
        self.document = get_document(self.manage)

    def node(self) -> PolicyRepository:
        return PolicyRepository(PolicySource(self.directory, load_registry(), NoMaterials()), self.records)

    def write(self, policies: dict[str, Any]) -> None:
        (self.directory / "all.yaml").write_text(to_yaml(policies))

    async def ask(
        self, method: str, target: str, body: Any = None, principal: Principal = ANNA, **headers: str
    ) -> Answer:
        answer = await ask(self.manage, method, target, body, principal, **headers)
        check_conforms(self.document, method, find_template(self.manage, method, target), answer)
        return answer

    async def made(self, kind: str, alias: str, **fields: Any) -> Answer:
        answer = await self.ask("POST", f"/{kind}", {"alias": alias, **fields})
        assert answer.status == 201, answer.raw
        return answer


def build_api(services: ControlServices) -> Starlette:
    groups = (
        *build_context_routes(services),
        ResourceRoutes(services.objects, services.contexts),
        *build_object_routes("profiles", PROFILE_MODELS, services),
        *build_object_routes("agents", AGENT_MODELS, services),
        *build_object_routes("prompts", PROMPT_MODELS, services),
        *build_object_routes("recipes", RECIPE_MODELS, services),
        DraftListRoutes(services.drafts),
    )
    return build_api_app(groups, LimitSettings())


@pytest.fixture
async def house(tmp_path: Path) -> ManagedPolicies:
    managed = ManagedPolicies(tmp_path)
    managed.write(FILES)
    await managed.policies.start()
    return managed


def pointers(answer: Answer) -> set[str]:
    assert answer.status == 422, answer.raw
    return {fault["pointer"] for fault in answer.json["errors"]}
