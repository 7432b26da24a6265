"""The blocks that the model sees: contexts in full, and the catalogue of what it can fetch."""

import hashlib
import hmac
from collections.abc import Iterable, Sequence

from gateway.domain.scope import RequestItem
from gateway.domain.selection import Omission, PlacedResource
from gateway.injection.neutral import neutral, one_line

CATALOGUE_CAP = 50
NO_DESCRIPTION = "Additional reference material"


def block_tag(secret: bytes, workspace: str) -> str:
    """What content authors cannot guess, yet stays the same from turn to turn, so that prompts stay cacheable."""
    return hmac.new(secret, workspace.encode(), hashlib.sha256).hexdigest()[:8]


def entry(name: str, text: str) -> str:
    """One resource as it stands in a block."""
    return f"[{one_line(name)}]\n{neutral(text)}"


def stable_block(
    placed: Sequence[PlacedResource], catalogue: Sequence[Omission], tag: str, names: tuple[str, str]
) -> str:
    """Always resources and the catalogue; "" when there is neither. `names` are the tools' names: get, list."""
    entries = [entry(one.candidate.resource.name, one.text) for one in placed]
    return framed(entries, catalogue_lines(catalogue, names), tag)


def volatile_block(placed: Sequence[PlacedResource], items: Sequence[RequestItem], tag: str) -> str:
    """What depends on the question, and the caller's own texts."""
    entries = [entry(one.candidate.resource.name, one.text) for one in placed]
    return framed([*entries, *(entry(item.name, item.text) for item in items)], [], tag)


def framed(entries: Sequence[str], catalogue: Sequence[str], tag: str) -> str:
    sections = []
    if entries:
        sections.append(f"--- Context [{tag}] ---\n" + "\n\n".join(entries))
    if catalogue:
        sections.append(f"--- Available Reference Materials [{tag}] ---\n" + "\n".join(catalogue))
    return "\n\n".join(sections) + f"\n--- End [{tag}] ---" if sections else ""


def catalogue_lines(catalogue: Sequence[Omission], names: tuple[str, str]) -> list[str]:
    if not catalogue:
        return []
    get_name, list_name = names
    lines = [f"Use {get_name} with an ID.", *listed(catalogue[:CATALOGUE_CAP])]
    if len(catalogue) > CATALOGUE_CAP:
        lines.append(f"{len(catalogue) - CATALOGUE_CAP} more: {list_name} finds them.")
    return lines


def listed(catalogue: Iterable[Omission]) -> Iterable[str]:
    for left in catalogue:
        resource = left.candidate.resource
        yield f"- **{one_line(resource.name)}** (ID: {resource.id})"
        yield f"  {one_line(resource.description) or NO_DESCRIPTION}"
