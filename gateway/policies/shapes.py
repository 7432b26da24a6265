"""The shape of policy files. Unknown keys are errors; references to other objects are checked by the compiler."""

import re
from datetime import UTC, date, datetime, time
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    StrictBool,
    model_validator,
)

from gateway.domain.agent import MAX_DEPTH, MAX_NEIGHBOURS, Placement, TextJoin, ToolPermission
from gateway.domain.content import LINK
from gateway.domain.principal import ANY_GROUP, GROUP, KEY, USER
from gateway.domain.resource import Mode, ResourceKind
from gateway.domain.template import parse_template
from gateway.errors import quote, shorten
from gateway.settings_sections import CategoryShares

ALIAS = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
NODE_KEY = re.compile(r"[a-z0-9_.][a-z0-9_.-]{0,63}")
RESERVED = frozenset({"global", "order", "resolve", "versions"})  # path segments of the management API


def find_alias_fault(alias: str, *, reserved: bool = True) -> str | None:
    """What is wrong with an alias, or None."""
    if not ALIAS.fullmatch(alias):
        return "an alias is 1 to 64 lower-case letters, digits and hyphens, and begins with a letter or digit"
    if reserved and alias in RESERVED:
        return f"{alias!r} is reserved; choose another alias"
    return None


def find_node_key_fault(key: str) -> str | None:
    """What is wrong with the key of a content node, or None."""
    if not NODE_KEY.fullmatch(key) or set(key) == {"."}:
        return "a node's key is 1 to 64 lower-case letters, digits, hyphens, underscores and dots"
    return None


def find_reader_fault(name: str) -> str | None:
    """What is wrong with a name in a reader list, or None."""
    kind = next((kind for kind in (USER, GROUP, KEY) if name.startswith(kind)), None)
    if kind is None:
        hint = " or ".join(repr(prefix + shorten(name)) for prefix in (USER, GROUP, KEY))
        return f"{quote(name)} does not say whether it is a user, a group or a key; write {hint}"
    bare = name.removeprefix(kind)
    if bare != bare.strip() or bare in ("", ANY_GROUP):
        return f"{quote(name)} names nobody; to let everyone read, leave `readers` out"
    return None


def _to_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _to_budget(value: Any) -> Any:
    return {"total": value} if isinstance(value, int | float | str) and not isinstance(value, bool) else value


def _check_template(text: str) -> str:
    parse_template(text)
    return text


def _check_model(model: str) -> str:
    if model.startswith("agent:"):
        raise ValueError("must be a model of an upstream, not another agent")
    return model


def _to_datetime(value: Any) -> Any:
    """A bare date means midnight UTC."""
    if isinstance(value, str) and DATE.fullmatch(value):
        return datetime.combine(date.fromisoformat(value), time(tzinfo=UTC))
    # pydantic would read a number, even as text, as seconds since 1970.
    if isinstance(value, int | float) or (isinstance(value, str) and not DATE.match(value)):
        raise ValueError("must be a date, or a date and time with an offset")
    return value


def _to_retain(value: Any) -> Any:
    return True if value == "session" else value


Text = Annotated[str, Field(min_length=1)]
# How long what the model fetched is kept; false: only for its request.
Retain = Annotated[StrictBool, BeforeValidator(_to_retain, json_schema_input_type=Literal["session"] | bool)]
Moment = Annotated[AwareDatetime, BeforeValidator(_to_datetime, json_schema_input_type=AwareDatetime | date)]
# A single string may stand for a list of one.
Strings = Annotated[list[Text], BeforeValidator(_to_list, json_schema_input_type=Text | list[Text])]
MAX_ORDER = 2**53  # JSON readers keep integers up to here
MAX_PROPERTIES = 256  # of a node
MAX_TITLE, MAX_NODE_NAME = 2_000, 512  # characters of a node's title, which stands beside all nodes below, and of ids
ModelName = Annotated[Text, AfterValidator(_check_model)]
# Strict: otherwise false would be read as 0 and "5" as 5.
Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
Score = Annotated[Number, Field(ge=0, le=1)]


class Shape(BaseModel):
    """Part of a policy file: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


Tokens = Annotated[Whole, Field(ge=0)]


class SharesShape(Shape, CategoryShares[Tokens]):
    """The shares of a budget in a policy."""


Truncation = Literal["extractive", "keep_start", "keep_end", "summarize", "none"]
CategoryName = Literal["always", "named", "tools", "focus", "semantic", "relations", "activity", "knowledge", "task"]


class BudgetShape(Shape):
    total: Whole | None = Field(None, ge=0)
    max: Whole | None = Field(None, ge=0)
    shares: SharesShape | None = None


class RankingShape(Shape):
    semantic: Score = 0.35
    structural: Score = 0.25
    recency: Score = 0.15
    type: Score = 0.15
    affinity: Score = 0.10


# A number may stand for the total.
BudgetField = Annotated[BudgetShape, BeforeValidator(_to_budget, json_schema_input_type=BudgetShape | Whole)]


class ThresholdsShape(Shape):
    include_score: Score | None = None
    min_score: Score | None = None
    top_k: Whole | None = Field(None, ge=1)
    top_n: Whole | None = Field(None, ge=0)


class ExpansionShape(Shape):
    depth: Whole | None = Field(None, ge=0, le=MAX_DEPTH)
    threshold: Score | None = None
    top_n: Whole | None = Field(None, ge=0, le=MAX_NEIGHBOURS)


class CollectorShape(BaseModel):
    """What an agent says about a collector; further keys are the collector's own, checked against its options."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)

    enabled: StrictBool | None = None
    priority: Whole | None = None


class SelectionShape(ThresholdsShape):
    enabled: StrictBool | None = None
    preset: Literal["conservative", "normal", "aggressive"] | None = None
    kinds: dict[Literal["reference", "tool"], ThresholdsShape] = {}
    expansion: ExpansionShape = ExpansionShape.model_construct()
    sticky: StrictBool | None = None


class TimeLimitedShape(Shape):
    """Something that may be valid for a limited time only."""

    valid_from: Moment | None = None
    valid_until: Moment | None = None

    @model_validator(mode="after")
    def _check_period(self) -> "TimeLimitedShape":
        if self.valid_from is not None and self.valid_until is not None and self.valid_until <= self.valid_from:
            raise ValueError("valid_until must come after valid_from")
        return self


class ResourceShape(TimeLimitedShape):
    type: Text
    name: Text | None = None
    mode: Mode = Mode.ALWAYS
    kind: ResourceKind | None = None  # default: a rule if it is always included, otherwise reference material
    description: str = ""
    languages: Strings = Field(default_factory=list)
    key: Text | None = None  # default: that of the type
    priority: Whole = 100
    required: StrictBool = False
    mandatory: StrictBool = False
    readers: Strings = Field(default_factory=list)
    examples: Strings = Field(default_factory=list)
    truncate: Truncation = "extractive"
    data: Any = Field(default_factory=dict)  # validated against the model of its type


class ContextShape(TimeLimitedShape):
    name: Text | None = None
    default: StrictBool = False
    mandatory: StrictBool = False
    resources: Any = Field(default_factory=dict)  # each is validated on its own, so that all faults are found


class SamplingShape(Shape):
    """What agents and profiles may set in the upstream request."""

    name: Text | None = None
    contexts: Strings = Field(default_factory=list)
    model: ModelName | None = None
    temperature: Number | None = Field(None, ge=0, le=2)
    top_p: Number | None = Field(None, ge=0, le=1)
    max_tokens: Whole | None = Field(None, ge=1)
    budget: BudgetField = BudgetShape.model_construct()
    placement: Placement | None = None


class ProfileShape(SamplingShape):
    pass


class ToolFilterShape(Shape):
    """Patterns of the ids of tools."""

    allow: Strings = Field(default_factory=lambda: ["*"])
    deny: Strings = Field(default_factory=list)


class ClientToolsShape(Shape):
    """What becomes of the tools that a request brings itself."""

    narrow: Whole | None = Field(None, ge=1, le=128)  # at most so many are sent, the most relevant
    keep: Strings = Field(default_factory=list)  # names or patterns of those that are always sent


class AgentShape(SamplingShape):
    description: str = ""
    instructions: str = ""
    profile: str | None = None
    inject: StrictBool | None = None
    selection: SelectionShape = Field(default_factory=SelectionShape)
    collectors: dict[Text, CollectorShape] = Field(default_factory=dict)
    ranking: RankingShape | None = None
    requires: list[CategoryName] = Field(default_factory=list)
    max_turns: Whole | None = Field(None, ge=1, le=50)
    tool_permission: ToolPermission | None = None
    retain: Retain | None = None
    tools: ToolFilterShape = Field(default_factory=ToolFilterShape)
    client_tools: ClientToolsShape = Field(default_factory=ClientToolsShape)
    tool_expansion: Whole = Field(0, ge=0, le=3)
    join: TextJoin = TextJoin.ALL


class PromptShape(Shape):
    name: Text | None = None
    template: Annotated[str, AfterValidator(_check_template)] | None = None
    contexts: Strings = Field(default_factory=list)


class LinkShape(Shape):
    """A link of a node; text alone stands for the target."""

    to: Text  # id or path
    type: Text = LINK


def _to_links(value: Any) -> Any:
    listed = _to_list(value)
    return [{"to": one} if isinstance(one, str) else one for one in listed] if isinstance(listed, list) else listed


Links = Annotated[list[LinkShape], BeforeValidator(_to_links, json_schema_input_type=Text | list[Text | LinkShape])]


class NodeShape(Shape):
    id: Annotated[Text, Field(max_length=MAX_NODE_NAME)] | None = None
    title: Annotated[Text, Field(max_length=MAX_TITLE)] | None = None
    type: Annotated[Text, Field(max_length=MAX_NODE_NAME)] = "page"
    order: Whole = Field(0, ge=-MAX_ORDER, le=MAX_ORDER)
    body: str = ""
    properties: dict[Text, Any] = Field(default_factory=dict, max_length=MAX_PROPERTIES)
    contexts: Strings = Field(default_factory=list)
    inherit: Literal["merge", "nearest"] = "nearest"
    readers: Strings = Field(default_factory=list)
    links: Links = Field(default_factory=list)
    children: Any = Field(default_factory=dict)  # each is validated on its own, so that all faults are found


class StoredNodeShape(NodeShape):
    """A node that is stored on its own and names its parent."""

    key: Text | None = None  # the last segment of its path; default: its id
    parent: Text | None = None  # the parent's id; null: a root


class DocumentShape(Shape):
    """An uploaded document; its text was extracted on upload."""

    name: str = ""
    media_type: str = "text/plain"
    size: Whole = Field(0, ge=0)
    text: str
