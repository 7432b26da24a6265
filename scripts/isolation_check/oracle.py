"""Who may read what, decided from the policies as they are written and by nothing of the gateway."""

from typing import Any


def list_secrets(policies: dict[str, Any]) -> dict[str, set[str]]:
    """Every secret word of a set of policies, and the reader lists that all have to admit a caller."""
    secrets: dict[str, set[str]] = {}
    for context in policies["contexts"].values():
        for resource in context["resources"].values():
            data = resource["data"]
            word = data["content"].split()[-1] if "content" in data else data["url"].rpartition("/")[2]
            secrets[word] = {join(resource.get("readers", []))}
    for entity in policies["knowledge"]["entities"].values():
        for text in (entity["name"], entity["properties"]["says"]):
            secrets[text.split()[-1]] = {join(entity.get("readers", []))}
    pending = [(node, set[str]()) for node in policies["content"].values()]
    while pending:
        node, above = pending.pop()
        needed = above | {join(node.get("readers", []))}
        secrets[node["body"].split()[-1]] = needed
        secrets[node["title"].split()[-1]] = needed
        pending += [(child, needed) for child in node.get("children", {}).values()]
    return secrets


def join(readers: list[str]) -> str:
    return ",".join(sorted(readers))


def may_read(identities: set[str], needed: set[str]) -> bool:
    """Whether somebody is on every one of the lists; an empty list is open to everyone."""
    return all(not lists or identities & set(lists.split(",")) for lists in needed)
