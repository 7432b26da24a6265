"""All objects of a workspace with what its nodes say, for whoever exports or compares them."""

from collections.abc import Mapping

from msgspec.structs import replace

from gateway.policies.files import SECTIONS, PolicyEntry
from gateway.policies.node_records import CONTENT, read_said
from gateway.policies.repository import PolicyRepository

READ_BATCH = 500  # nodes


async def read_whole_entries(policies: PolicyRepository, workspace: str) -> Mapping[str, Mapping[str, PolicyEntry]]:
    """As `PolicyRepository.entries`, with whole nodes; raises StoreError."""
    entries = policies.entries(workspace)
    nodes, ids = dict[str, PolicyEntry](), list(entries.nodes)
    for start in range(0, len(ids), READ_BATCH):
        part = {id: entries.nodes[id] for id in ids[start : start + READ_BATCH]}
        records = await policies.read_nodes(workspace, [id for id, one in part.items() if one.record is not None])
        whole = {id: replace(part[id], data=part[id].data | read_said(one), record=one) for id, one in records.items()}
        nodes |= part | whole
    return {**{kind: entries[kind] for kind in SECTIONS if kind != CONTENT}, CONTENT: nodes}
