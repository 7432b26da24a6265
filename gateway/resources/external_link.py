"""external-link: the text behind a URL, fetched in the background and never during a chat."""

from pydantic import BaseModel, ConfigDict, Field, field_validator

from gateway.domain.material import LinkMaterial
from gateway.domain.resource import Mode
from gateway.links.guard import parse_url
from gateway.resources.base import ResourceType


class ExternalLinkData(BaseModel):
    """The address and how often it is fetched again."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    url: str = Field(description="An http or https address that needs no login.")
    interval: float | None = Field(None, ge=60, description="Seconds between refreshes; absent: links.interval.")

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        parse_url(url)  # its address is checked when it is fetched
        return url


class ExternalLinkType(ResourceType):
    """The last good copy of a page, as text."""

    alias = "external-link"
    name = "External link"
    description = "The text of a web page, refreshed in the background"
    data = ExternalLinkData
    icon = "link"
    recommended_mode = Mode.ON_DEMAND

    def material(self, data: ExternalLinkData) -> LinkMaterial:
        return LinkMaterial(data.url, data.interval or 0)  # 0: the configured default

    def render(self, data: ExternalLinkData, material: str | None) -> str:
        return material or ""
