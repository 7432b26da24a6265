"""Stored nodes: what everybody loads of them, and what is looked up."""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from msgspec.structs import replace

from gateway.domain.content import LINK, NodeContent, NodeLink
from gateway.domain.record import Record, RecordIndex, RecordWrite
from gateway.policies.files import PolicyEntry
from gateway.policies.record_ids import read_creation_time

CONTENT = "content"  # the kind of their records
SAID = ("body", "properties", "links")  # what changes without changing the tree


def make_outline(data: Mapping[str, Any]) -> bytes:
    """A node without what it says, in a form that is the same for the same node."""
    kept = {name: value for name, value in data.items() if name not in SAID}
    return orjson.dumps(kept, option=orjson.OPT_SORT_KEYS)


def list_links(data: Mapping[str, Any]) -> tuple[NodeLink, ...]:
    """The links of a node as they are written, without slashes around paths."""
    written = data.get("links")
    return tuple(read_link(one) for one in written) if isinstance(written, list) else ()


def read_link(written: Any) -> NodeLink:
    """A link that is written as text or as a mapping."""
    if isinstance(written, Mapping):
        return NodeLink(str(written.get("type") or LINK), str(written.get("to")).strip("/"))
    return NodeLink(LINK, str(written).strip("/"))


def format_link(link: NodeLink) -> Any:
    """A link as people write it."""
    return link.target if link.type == LINK else {"to": link.target, "type": link.type}


def outline_write(write: RecordWrite) -> RecordWrite:
    """The write with what everybody loads, if it is one of a node."""
    if write.key.kind != CONTENT or write.body is None or write.outline is not None:
        return write
    data = _read_body(write.body)
    return replace(write, outline=make_outline(data), links=list_links(data))


def outline_record(record: Record) -> Record:
    """The record as everybody loads it, if an earlier release has stored it whole."""
    if not lacks_outline(record):
        return record
    return replace(record, body=make_outline(_read_body(record.body)), whole_bytes=record.size)


def lacks_outline(record: Record) -> bool:
    return record.key.kind == CONTENT and record.body is not None and record.whole_bytes is None


def make_index(record: Record) -> RecordIndex:
    """What a whole record lacks."""
    data = _read_body(record.body)
    return RecordIndex(record, make_outline(data), list_links(data))


def read_said(record: Record) -> dict[str, Any]:
    """What a node says, as it is written in its whole record."""
    data = _read_body(record.body)
    return {"body": data.get("body", ""), "properties": data.get("properties", {}), "links": data.get("links", [])}


def read_content(record: Record) -> NodeContent:
    """What a node says, from its whole record."""
    said = read_said(record)
    return NodeContent(
        body=str(said["body"]),
        properties=said["properties"],
        links=list_links(said),
        created_by=record.created_by,
        created_at=read_creation_time(record),
        updated_by=record.by,
        updated_at=record.at,
    )


def read_entry(entry: PolicyEntry) -> NodeContent:
    """What a node of a policy file says, its links as they are written."""
    data = entry.data
    return NodeContent(data["body"], data["properties"], tuple(read_link(one) for one in data["links"]))


def group_ids(records: Iterable[Record]) -> dict[str, set[str]]:
    """The ids of the nodes among records, by workspace."""
    found: dict[str, set[str]] = {}
    for workspace, kind, id in (record.key for record in records):
        if kind == CONTENT:
            found.setdefault(workspace, set()).add(id)
    return found


def _read_body(body: bytes | None) -> dict[str, Any]:
    data = orjson.loads(body or b"{}")
    return data if isinstance(data, dict) else {}
