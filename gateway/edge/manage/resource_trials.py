"""`/contexts/{context}/preview` and `/find`: a resource that is not saved, as models would read and find it."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec.structs import asdict
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply
from gateway.edge.manage.routes import ApiRoute
from gateway.errors import Conflict, InvalidObject, ServiceUnavailable
from gateway.replay.resource_trial import ResourceTrials

TAG = "contexts"


class TrialBody(BaseModel):
    """A resource as it would be saved; it needs no id yet."""

    model_config = ConfigDict(extra="forbid")

    resource: dict[str, Any]


class FindBody(TrialBody):
    """A resource, and what people might ask."""

    questions: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=8000)]], Field(min_length=1, max_length=20)
    ]


class TextView(BaseModel):
    """What a model would read."""

    text: str = Field(description="The beginning of a long text.")
    characters: int = Field(description="Of the whole text.")
    tokens: int


class ScoredView(BaseModel):
    """Another resource of the context."""

    id: str
    name: str
    score: float


class FindingView(BaseModel):
    """What a question comes to."""

    question: str
    found: bool = Field(description="Whether it would be placed, if the budget has room.")
    score: float | None = Field(description="The probability that it is relevant; null: it was not searched.")
    threshold: float | None = Field(description="From which score on it is placed.")
    why: str
    others: list[ScoredView] = Field(description="The best of the others.")


class FindResult(BaseModel):
    """One finding per question."""

    items: list[FindingView]


class ResourceTrialRoutes(msgspec.Struct, frozen=True):
    """Trials of resources; nothing is stored. The context need not exist yet."""

    trials: ResourceTrials

    def list_routes(self) -> Iterator[ApiRoute]:
        route = partial(ApiRoute, method="POST", role=Role.EDITOR, tag=TAG)
        yield route(
            path="/contexts/{context}/preview",
            handler=self.show,
            summary="Show what a model would read of a resource that is not saved",
            body=TrialBody,
            responses={200: TextView},
            errors=(Conflict, InvalidObject),
        )
        yield route(
            path="/contexts/{context}/find",
            handler=self.find,
            summary="Tell which questions would find a resource that is not saved",
            body=FindBody,
            responses={200: FindResult},
            errors=(Conflict, InvalidObject, ServiceUnavailable),
        )

    async def show(self, call: ApiCall[None, TrialBody]) -> ApiReply:
        shown = await self.trials.show(call.workspace, call.body.resource)
        return ApiReply(TextView(**asdict(shown)))

    async def find(self, call: ApiCall[None, FindBody]) -> ApiReply:
        context, sent = call.path["context"], call.body
        found = await self.trials.find(call.workspace, context, sent.resource, sent.questions)
        return ApiReply(FindResult(items=[FindingView(**msgspec.to_builtins(one)) for one in found]))
