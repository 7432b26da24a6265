"""Query parameters, and lists that are returned page by page."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

_INTEGER = re.compile(r"-?[0-9]{1,18}")

T = TypeVar("T")


class QueryParameters(BaseModel):
    """Query parameters; unknown ones are errors. Fields are strings, integers or booleans, with bounds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _require_plain_value(cls, value: Any, info: ValidationInfo) -> Any:
        # pydantic would take "1_000", " 5 " and "5.0" for integers, "on" and "t" for booleans.
        wanted = {cls.model_fields[str(info.field_name)].annotation}
        if wanted & {int, int | None} and not _INTEGER.fullmatch(value):
            raise ValueError("must be a whole number")
        if wanted & {bool, bool | None} and value not in ("true", "false"):
            raise ValueError("must be true or false")
        return value


class Paging(QueryParameters):
    """Which page of a list to return."""

    skip: int = Field(0, ge=0, le=10_000_000, description="How many items to skip.")
    take: int = Field(100, ge=1, le=1000, description="How many items to return at most.")


class ListQuery(Paging):
    """Which page of a list to return, filtered by a word."""

    filter: str = Field("", max_length=200, description="Only items with this text in one of their names.")

    def accepts(self, *texts: str) -> bool:
        """Whether one of the texts contains the filter, in any case."""
        word = self.filter.casefold()
        return any(word in text.casefold() for text in texts)


class Page(BaseModel, Generic[T]):
    """One page of a list, and the length of the whole list."""

    items: list[T]
    total: int


def paginate(found: Sequence[T], wanted: Paging, render: Callable[[T], Any]) -> dict[str, Any]:
    """The page of a list that is wanted, as `Page` describes it."""
    return build_page([render(one) for one in found[wanted.skip :][: wanted.take]], len(found))


def build_page(items: Sequence[Any], total: int) -> dict[str, Any]:
    """A page that was cut already."""
    return {"items": items, "total": total}
