"""What the code of a resource type raises is a fault of the resource that made it do so."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from gateway.errors import Faults
from gateway.policies.context_compiler import resolve_document_path
from gateway.policies.file_policies import load_policies
from gateway.resources.base import ResourceType
from gateway.resources.registry import load_registry


class NoMaterials:
    def file(self, path: Path) -> str:
        raise ValueError(path.name)

    def link(self, url: str) -> str | None:
        return None


class NoData(BaseModel):
    pass


class RaisingType(ResourceType):
    alias = "text"
    name = description = "Raises"
    data = NoData

    def __init__(self, error: Exception) -> None:
        self.error = error

    def render(self, data: Any, material: str | None) -> str:
        raise self.error


def write(directory: Path, resource: str) -> None:
    (directory / "p.yaml").write_text(f"contexts:\n  c:\n    resources:\n      r: {resource}\n")


@pytest.mark.parametrize("error", [AssertionError("no"), LookupError("no"), RecursionError("no"), TypeError("no")])
def test_a_type_that_raises_gives_a_fault(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "{type: text, data: {}}")
    registry = load_registry()
    monkeypatch.setattr(registry, "get", lambda _: RaisingType(error))
    with pytest.raises(
        Faults, match=f"p.yaml:4: contexts.c.resources.r.data: cannot be rendered: {type(error).__name__}"
    ):
        load_policies(tmp_path, registry, NoMaterials(), 1)


def test_an_inline_document_that_is_no_html_is_a_fault(tmp_path: Path) -> None:
    write(tmp_path, "{type: document, data: {mime_type: text/html, content: '<![<!['}}")
    with pytest.raises(Faults, match=r"p\.yaml:4: contexts\.c\.resources\.r\.data: it is not HTML"):
        load_policies(tmp_path, load_registry(), NoMaterials(), 1)


def test_links_that_lead_to_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(ValueError, match="cannot be followed"):
        resolve_document_path(tmp_path, tmp_path, "a")
