"""How resources look in requests and replies."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gateway.edge.manage.views import Page
from gateway.policies.shapes import ResourceShape


class LinkView(BaseModel):
    """The state of an external link."""

    fetched_at: datetime | None
    size: int | None
    error: str | None
    age: float | None = Field(description="Seconds since the copy in use was fetched or confirmed.")
    failures: int = Field(description="Attempts that failed in a row.")


class ResourceView(ResourceShape):
    """A resource of a context."""

    id: str
    ref: str = Field(description="context/id: what requests and tools call it.")
    name: str


class LinkedView(ResourceView):
    """A resource by itself, with the state of its link if it has one."""

    link: LinkView | None


class ResourcePage(Page[ResourceView]):
    """A part of the resources of a context, in their order."""


class ResourceBody(ResourceShape):
    """A resource as it is sent; `ref` and `link` are not looked at."""

    id: str | None = Field(None, description="Names it inside its context; it never changes.")
    alias: str | None = Field(None, description="The same as id.")
    ref: Any = None
    link: Any = None


class NewResource(ResourceBody):
    """A resource as it is sent to be made."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["id"]}, {"required": ["alias"]}]})


class Order(BaseModel):
    """The ids of all resources of a context in their new order; the list alone is taken, too."""

    model_config = ConfigDict(extra="forbid")

    order: list[str]

    @model_validator(mode="before")
    @classmethod
    def _list_alone(cls, value: Any) -> Any:
        return {"order": value} if isinstance(value, list) else value
