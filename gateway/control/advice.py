"""What the figures suggest to change in the policies of a workspace."""

from gateway.analytics.reports import Reports
from gateway.analytics.suggestions import Advisor
from gateway.policies.repository import PolicyRepository


def build_advisor(reports: Reports, policies: PolicyRepository, workspace: str, default_budget: int) -> Advisor:
    """An advisor for the policies as they are now."""
    entries = policies.entries(workspace)

    def is_stored(kind: str, alias: str) -> bool:
        entry = entries[kind].get(alias)
        return entry is not None and entry.record is not None

    return Advisor(reports, policies.get_snapshot(workspace), is_stored, default_budget)
