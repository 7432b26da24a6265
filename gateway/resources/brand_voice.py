"""brand-voice: how texts should sound. A narrower voice overrides field by field."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from gateway.resources.base import ResourceType


def _join_points(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        value = "; ".join(entry.strip() for entry in value if entry.strip())
    return value.strip() or None if isinstance(value, str) else value


Trait = Annotated[str | None, BeforeValidator(_join_points, json_schema_input_type=str | list[str] | None)]


class BrandVoiceData(BaseModel):
    """Any of the four traits, each a sentence or a list of points."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    tone: Trait = Field(None, description="How the text sounds, e.g. professional, warm.")
    audience: Trait = Field(None, description="Whom the text addresses.")
    style: Trait = Field(None, description="Rules of writing: sentence length, person, spelling.")
    avoid: Trait = Field(None, description="What must not appear.")

    @model_validator(mode="after")
    def _require_trait(self) -> "BrandVoiceData":
        if not any(value for _, value in self):
            raise ValueError("give at least one of tone, audience, style, avoid")
        return self


class BrandVoiceType(ResourceType):
    """Tone, audience, style and what to avoid, a line each."""

    alias = "brand-voice"
    name = "Brand voice"
    description = "Tone, audience, style and patterns to avoid"
    data = BrandVoiceData
    conflict_key = "voice"
    icon = "megaphone"

    def render(self, data: BrandVoiceData, material: str | None) -> str:
        return "\n".join(f"{trait.capitalize()}: {value}" for trait, value in data if value)

    def merge(self, narrow: BrandVoiceData, broad: BrandVoiceData) -> BrandVoiceData:
        merged = {trait: value or getattr(broad, trait) for trait, value in narrow}
        return BrandVoiceData(**merged)
