"""The configuration of collectors; each adds settings of its own."""

from pydantic import BaseModel, ConfigDict

from gateway.domain.agent import CollectorSettings


class CollectorLevel(BaseModel):
    """What is said about one collector; further keys are its own limits and settings, which it checks itself."""

    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True, defer_build=True)

    enabled: bool | None = None  # absent: yes
    priority: int | None = None  # a lower number comes first; absent: its own

    def to_settings(self) -> CollectorSettings:
        return CollectorSettings(self.enabled, self.priority, dict(self.__pydantic_extra__ or {}))


class CollectorSection(CollectorLevel):
    workspaces: dict[str, CollectorLevel] = {}  # where it differs for one of them
