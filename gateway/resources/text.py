"""text: content that is given to the model unchanged."""

from pydantic import BaseModel, ConfigDict, Field

from gateway.resources.base import ResourceType


class TextData(BaseModel):
    """The text itself."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    content: str = Field(pattern=r"\S", description="The text, given to the model unchanged.")


class TextType(ResourceType):
    """Plain text or Markdown written in the policy itself."""

    alias = "text"
    name = "Text"
    description = "Text or Markdown written in the policy itself"
    data = TextData
    icon = "align-left"

    def render(self, data: TextData, material: str | None) -> str:
        return data.content
