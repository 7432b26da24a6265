"""A management API over real policies in memory; every answer is held against the OpenAPI document."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from managing import Answer, ask, conforms

from gateway.control.services import Services
from gateway.domain.principal import Principal, Role
from gateway.edge.manage.agents import agents
from gateway.edge.manage.app import Manage
from gateway.edge.manage.contexts import contexts
from gateway.edge.manage.drafts import DraftList
from gateway.edge.manage.openapi import document
from gateway.edge.manage.patterns import segments
from gateway.edge.manage.profiles import profiles
from gateway.edge.manage.prompts import prompts
from gateway.edge.manage.resources import Resources
from gateway.policies.context_compiler import PolicySource
from gateway.policies.repository import PolicyRepository
from gateway.resources.registry import default_registry
from gateway.settings import LimitSettings
from gateway.stores.memory_ephemeral import MemoryStore
from gateway.stores.memory_records import MemoryRecords

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


class Managed:
    """Speaks to the API as one caller."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.records = MemoryRecords()
        self.policies = self.node()
        self.services = Services.over(self.policies, self.records, MemoryStore())
        self.manage = managing(self.services)
        self.document = document(self.manage.routes)

    def node(self) -> PolicyRepository:
        return PolicyRepository(PolicySource(self.directory, default_registry(), NoMaterials()), self.records)

    def write(self, policies: dict[str, Any]) -> None:
        (self.directory / "all.yaml").write_text(yaml.safe_dump(policies, sort_keys=False))

    async def ask(
        self, method: str, target: str, body: Any = None, principal: Principal = ANNA, **headers: str
    ) -> Answer:
        answer = await ask(self.manage, method, target, body, principal, **headers)
        path = segments(target.partition("?")[0].encode(), b"")
        fits = [route for route in self.manage.routes if route.pattern.match(path) is not None]
        best = min(fits, key=lambda route: route.pattern.rank)
        conforms(self.document, method, best.pattern.template, answer)
        return answer

    async def made(self, kind: str, alias: str, **fields: Any) -> Answer:
        answer = await self.ask("POST", f"/{kind}", {"alias": alias, **fields})
        assert answer.status == 201, answer.raw
        return answer


def managing(services: Services) -> Manage:
    nouns = (
        *contexts(services),
        Resources(services.objects, services.contexts),
        *profiles(services),
        *agents(services),
        *prompts(services),
        DraftList(services.drafts),
    )
    return Manage(nouns, LimitSettings())


@pytest.fixture
async def house(tmp_path: Path) -> Managed:
    managed = Managed(tmp_path)
    managed.write(FILES)
    await managed.policies.start()
    return managed


def pointers(answer: Answer) -> set[str]:
    assert answer.status == 422, answer.raw
    return {fault["pointer"] for fault in answer.json["errors"]}
