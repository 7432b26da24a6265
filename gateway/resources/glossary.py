"""glossary: terms and the definitions that the model should stick to."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from gateway.resources.base import ResourceType

HEADING = "Glossary - Use these terms consistently:"


class GlossaryTerm(BaseModel):
    """One entry."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, str_strip_whitespace=True)

    term: str = Field(min_length=1, description="The word or phrase.")
    definition: str = Field(min_length=1, description="What it means here.")


def _list_terms(value: Any) -> Any:
    if isinstance(value, dict):
        return [{"term": term, "definition": definition} for term, definition in value.items()]
    return value


Terms = Annotated[
    tuple[GlossaryTerm, ...], BeforeValidator(_list_terms, json_schema_input_type=list[GlossaryTerm] | dict[str, str])
]


class GlossaryData(BaseModel):
    """Terms in the order in which they are shown."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    terms: Terms = Field(min_length=1, description="A list of {term, definition}, or a mapping of term to definition.")

    @field_validator("terms")
    @classmethod
    def _reject_duplicates(cls, terms: tuple[GlossaryTerm, ...]) -> tuple[GlossaryTerm, ...]:
        seen: set[str] = set()
        for entry in terms:
            if entry.term in seen:
                raise ValueError(f"the term {entry.term!r} is defined twice")
            seen.add(entry.term)
        return terms


class GlossaryType(ResourceType):
    """Terms with their approved definitions, a line each."""

    alias = "glossary"
    name = "Glossary"
    description = "Terms and their approved definitions"
    data = GlossaryData
    icon = "book"

    def render(self, data: GlossaryData, material: str | None) -> str:
        return "\n".join([HEADING, *(f"- {entry.term}: {entry.definition}" for entry in data.terms)])
