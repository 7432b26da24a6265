"""Uploads: read once, known by their bytes, kept apart by workspace."""

import io
import zipfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from gateway.control.documents import MAX_TEXT, PIECE, Documents
from gateway.control.writer import PolicyWriter
from gateway.domain.principal import ANONYMOUS, Principal, Role
from gateway.domain.record import Author, RecordKey, RecordWrite
from gateway.edge.manage.app import build_api_app
from gateway.edge.manage.documents import DocumentRoutes
from gateway.errors import Faults, InvalidObject
from gateway.extraction.extract import DocumentCache
from gateway.extraction.extractor import Extractor
from gateway.links.cache import LinkCache
from gateway.policies.context_compiler import PolicySource
from gateway.policies.materials import PolicyMaterials
from gateway.policies.repository import PolicyRepository
from gateway.resources.registry import load_registry
from gateway.settings import DocumentSettings as Settings
from gateway.settings import LimitSettings, LinkSettings
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.stores.memory_records import MemoryRecordStore
from tests.support.management_asgi import Answer, ask

MARKDOWN = "# Pairing\n\nHold the button for five seconds. Größe: 3".encode()
DIGEST = sha256(MARKDOWN).hexdigest()
OTHER = Principal("other", workspace="other", role=Role.EDITOR)
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


class Desktop:
    """The API over uploads, on policies that are really compiled."""

    def __init__(self, directory: Path, limits: Settings) -> None:
        self.store = MemoryEphemeralStore()
        materials = PolicyMaterials(DocumentCache(limits), LinkCache(self.store, LinkSettings()))
        self.policies = PolicyRepository(PolicySource(directory, load_registry(), materials), MemoryRecordStore())
        documents = Documents(self.policies, PolicyWriter(self.policies, self.store), self.store, Extractor(limits))
        self.manage = build_api_app([DocumentRoutes(documents, limits.max_bytes)], LimitSettings())

    async def upload(self, content: bytes, media: str = "text/markdown", query: str = "", **more: Any) -> Answer:
        return await ask(self.manage, "POST", f"/documents{query}", content, content_type=media, **more)

    async def get(self, path: str, principal: Principal = ANONYMOUS) -> Answer:
        return await ask(self.manage, "GET", path, principal=principal)

    async def store_context(self, data: Mapping[str, Any]) -> None:
        write = RecordWrite(RecordKey("default", "contexts", "help"), orjson.dumps(context(data)))
        self.policies.trial("default", {("contexts", "help"): context(data)})
        await self.policies.commit([write], Author("test", "create"))


def context(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"resources": {"guide": {"type": "document", "data": dict(data)}}}


@pytest.fixture
async def desktop(tmp_path: Path) -> Desktop:
    made = Desktop(tmp_path, Settings(seconds=120))  # a busy machine takes long to start what reads documents
    await made.policies.start()
    return made


async def test_an_upload_is_read_and_told_by_the_hash_of_its_bytes(desktop: Desktop) -> None:
    answer = await desktop.upload(MARKDOWN, query="?name=Pairing.md")
    assert answer.status == 201
    assert answer.headers["location"] == f"/api/v1/documents/{DIGEST}"
    told = answer.json
    assert (told["sha256"], told["name"], told["media_type"]) == (DIGEST, "Pairing.md", "text/markdown")
    assert (told["size"], told["characters"]) == (len(MARKDOWN), len(MARKDOWN.decode()))
    assert (told["source"], told["created_by"], told["used_by"]) == ("store", "anonymous", [])
    assert (await desktop.get(f"/documents/{DIGEST}")).json == told
    assert (await desktop.get("/documents?filter=pair")).json == {"items": [told], "total": 1}
    assert (await desktop.get("/documents?filter=brand")).json == {"items": [], "total": 0}


async def test_the_same_bytes_again_are_the_same_document(desktop: Desktop) -> None:
    first = await desktop.upload(MARKDOWN, query="?name=a.md")
    again = await desktop.upload(MARKDOWN, "text/plain", "?name=b.txt")
    assert (again.status, again.json) == (200, first.json)


async def test_what_was_uploaded_comes_back_byte_by_byte_as_an_attachment(desktop: Desktop) -> None:
    content = b"<html><body>" + b"<p>Words and more words.</p>" * 40_000 + b"</body></html>"
    assert len(content) > 2 * PIECE
    digest = (await desktop.upload(content, "text/html", "?name=gr%C3%BC%22n.html")).json["sha256"]
    answer = await desktop.get(f"/documents/{digest}/content")
    assert (answer.status, answer.raw) == (200, content)
    assert answer.headers["content-type"] == "text/html"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''gr%C3%BC%22n.html"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]


async def test_bytes_without_a_type_are_known_by_their_name_or_by_how_they_begin(desktop: Desktop) -> None:
    anything = "application/octet-stream"
    assert (await desktop.upload(MARKDOWN, anything, "?name=x.md")).json["media_type"] == "text/markdown"
    assert (await desktop.upload(b"<!doctype html><p>Hello", anything)).json["media_type"] == "text/html"
    assert (await desktop.upload(b"Plain words", anything)).json["media_type"] == "text/plain"
    assert (await desktop.upload(docx("A word"), anything)).json["media_type"] == DOCX


async def test_a_charset_is_heeded(desktop: Desktop) -> None:
    answer = await desktop.upload("Größe".encode("latin-1"), "text/plain; charset=iso-8859-1")
    assert (answer.status, answer.json["characters"]) == (201, 5)


@pytest.mark.parametrize(
    ("content", "media", "reason"),
    [
        (b"\xff\xfe\xfa", "text/plain", "it is not UTF-8 text (byte 0)"),
        (b"a\0b", "text/plain", "it contains NUL characters, so it is not text"),
        (b"", "text/plain", "it contains no text"),
        (b" \n", "text/markdown", "it contains no text"),
        (b"<p></p>", "text/html", "it contains no text"),
        (b"no pdf", "application/pdf", "it is damaged or not a PDF document"),
        (b"PK\x03\x04 no docx", "application/octet-stream", "it is damaged or not a DOCX document"),
        (b"x" * (MAX_TEXT + 1), "text/plain", f"its text is larger than {MAX_TEXT} bytes"),
    ],
)
async def test_a_document_that_gives_no_text_is_refused_with_the_reason(
    desktop: Desktop, content: bytes, media: str, reason: str
) -> None:
    answer = await desktop.upload(content, media)
    assert (answer.status, answer.json["errors"][0]["message"]) == (422, reason)
    assert (await desktop.get("/documents")).json["total"] == 0


async def test_a_document_beyond_the_limit_and_one_of_a_strange_type_are_refused(tmp_path: Path) -> None:
    desktop = Desktop(tmp_path, Settings(max_bytes=10))
    await desktop.policies.start()
    assert (await desktop.upload(b"x" * 11, "text/plain")).status == 413
    assert (await desktop.upload(b"x" * 10, "text/plain")).status == 201
    assert (await desktop.upload(b"x", "image/png")).status == 415
    assert (await desktop.upload(b"x", "text/plain", "?name=a%2Fb")).status == 422
    assert (await desktop.upload(b"x", "text/plain", principal=Principal("chat"))).status == 403


async def test_a_resource_takes_the_text_of_an_upload(desktop: Desktop) -> None:
    await desktop.upload(MARKDOWN, query="?name=pairing.md")
    await desktop.store_context({"sha256": DIGEST})
    (resource,) = desktop.policies.get_snapshot("default").contexts["help"].resources
    assert resource.text == MARKDOWN.decode()
    assert (await desktop.get(f"/documents/{DIGEST}")).json["used_by"] == ["help/guide"]


async def test_a_resource_cannot_name_a_document_that_is_not_there_nor_a_path_of_the_server(
    desktop: Desktop, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text("The server's own.")
    await desktop.upload(MARKDOWN, principal=OTHER)
    for data in ({"sha256": DIGEST}, {"path": "secret.txt"}, {"sha256": DIGEST, "content": "x"}, {"sha256": "no"}):
        with pytest.raises((Faults, InvalidObject)):
            await desktop.store_context(data)


async def test_a_document_in_use_stays_and_one_that_is_not_goes_with_its_bytes(desktop: Desktop) -> None:
    await desktop.upload(MARKDOWN)
    await desktop.store_context({"sha256": DIGEST})
    refused = await ask(desktop.manage, "DELETE", f"/documents/{DIGEST}")
    assert (refused.status, "help/guide" in refused.json["detail"]) == (409, True)
    await desktop.store_context({"content": "Something else"})
    assert (await ask(desktop.manage, "DELETE", f"/documents/{DIGEST}")).status == 204
    assert (await desktop.get(f"/documents/{DIGEST}")).status == 404
    assert (await ask(desktop.manage, "DELETE", f"/documents/{DIGEST}")).status == 404
    assert (await desktop.upload(MARKDOWN)).status == 201
    assert (await desktop.get(f"/documents/{DIGEST}/content")).raw == MARKDOWN


async def test_another_workspace_sees_nothing(desktop: Desktop) -> None:
    await desktop.upload(MARKDOWN)
    unknown = await desktop.get(f"/documents/{'0' * 64}", OTHER)
    hidden = await desktop.get(f"/documents/{DIGEST}", OTHER)
    assert (hidden.status, hidden.json["title"]) == (unknown.status, unknown.json["title"]) == (404, "Not Found")
    assert (await desktop.get(f"/documents/{DIGEST}/content", OTHER)).status == 404
    assert (await ask(desktop.manage, "DELETE", f"/documents/{DIGEST}", principal=OTHER)).status == 404
    assert (await desktop.get("/documents", OTHER)).json["total"] == 0
    assert (await desktop.upload(MARKDOWN, principal=OTHER)).status == 201
    assert (await ask(desktop.manage, "DELETE", f"/documents/{DIGEST}", principal=OTHER)).status == 204
    assert (await desktop.get(f"/documents/{DIGEST}/content")).raw == MARKDOWN


async def test_documents_of_policy_files_are_listed_and_read_only(tmp_path: Path) -> None:
    text = {"documents": {DIGEST: {"name": "pairing.md", "text": "Hold the button."}}}
    (tmp_path / "all.yaml").write_text(yaml.safe_dump(text | {"contexts": {"help": context({"sha256": DIGEST})}}))
    desktop = Desktop(tmp_path, Settings())
    await desktop.policies.start()
    told = (await desktop.get(f"/documents/{DIGEST}")).json
    assert (told["source"], told["used_by"], told["characters"]) == ("file", ["help/guide"], 16)
    refused = await ask(desktop.manage, "DELETE", f"/documents/{DIGEST}")
    assert (refused.status, "all.yaml" in refused.json["detail"]) == (409, True)
    assert (await desktop.get(f"/documents/{DIGEST}/content")).status == 404
    assert (await desktop.upload(MARKDOWN)).status == 200


def docx(text: str) -> bytes:
    """The smallest document that a word processor would open."""
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = f'<w:document xmlns:w="{namespace}"><w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body></w:document>'
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("word/document.xml", body)
    return made.getvalue()
