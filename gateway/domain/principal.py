"""Who is asking."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller as its key describes it; the workspace comes from nowhere else."""

    name: str
    workspace: str = "default"
    agents: frozenset[str] | None = None  # None: any agent of the workspace
    agent: str | None = None  # used when the request names none; cannot be switched off
    rights: frozenset[str] = frozenset()  # "act_as_user", "admin"

    def may_use(self, agent: str) -> bool:
        return self.agents is None or agent in self.agents or agent == self.agent


ANONYMOUS = Principal("anonymous")
