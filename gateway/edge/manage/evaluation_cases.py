"""`/evaluation-cases`: saved questions with what they should get, and runs of them with other policies."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import msgspec
from pydantic import BaseModel, Field

from gateway.control.evaluation_cases import EvaluationCases, SavedCase
from gateway.domain.principal import Role
from gateway.edge.manage.calls import (
    ApiCall,
    ApiReply,
    allow_replacing,
    reply_created,
    reply_empty,
    reply_if_changed,
)
from gateway.edge.manage.paging import ListQuery, Page, paginate
from gateway.edge.manage.resolve import PoliciesBody
from gateway.edge.manage.routes import WRITE_ERRORS, ApiRoute
from gateway.edge.manage.views import to_datetime
from gateway.errors import Conflict, InvalidObject, NotFound, ServiceUnavailable
from gateway.evaluation.cases import CaseShape, Text
from gateway.policies.shapes import Moment
from gateway.replay.case_trial import CaseTrial, describe_trial

TAG = "evaluation-cases"
PATH = "/evaluation-cases"
MAX_RUN = 100  # cases of one run
MAX_TEXT = 8000  # characters
MAX_EXPECTED = 50
MAX_EARLIER = 20

BoundedText = Annotated[Text, Field(max_length=MAX_TEXT)]
Name = Annotated[Text, Field(max_length=500)]


class CaseBody(CaseShape):
    """A question, and what it should get. The names have the meaning of the headers `x-context-…`."""

    question: BoundedText
    expect: Annotated[list[Name], Field(max_length=MAX_EXPECTED)] = Field(
        description="Ids of resources that should be injected; empty: nothing should be found."
    )
    agent: Name | None = None
    profile: Name | None = None
    prompt: Name | None = None
    content: Name | None = None
    language: Name | None = None
    user: Name | None = None
    earlier: Annotated[list[BoundedText], Field(max_length=MAX_EARLIER)] = Field(
        [], description="What the user said before, oldest first."
    )


class CaseView(CaseShape):
    """A saved case."""

    id: str
    version: int
    updated_at: datetime
    updated_by: str


class CasePage(Page[CaseView]):
    """A page of the list of saved cases."""


class CaseRunBody(PoliciesBody):
    """Which cases to run, and the policies to compare the current ones with."""

    cases: Annotated[list[Name], Field(min_length=1, max_length=MAX_RUN)] | None = Field(
        None, description=f"Ids; without them the first {MAX_RUN} cases. `total` in the reply says how many there are."
    )
    as_of: Moment | None = Field(None, description="The stored policies as they were at this time.")
    model: Name | None = Field(None, description="The model that the requests name.")


class FiguresView(BaseModel):
    """Shares from 0 to 1; null where there is nothing to measure."""

    precision: float | None = Field(description="Of what was injected where something is expected: the expected.")
    recall: float | None = Field(description="Of what is expected: how much was injected, averaged over cases.")
    false_injections: float | None = Field(description="Of the cases that expect nothing: how many got something.")
    r_at_1: float | None = Field(description="Of the cases that expect something: how often it has the best score.")


class FiguresPair(BaseModel):
    """The figures with the current policies and with the others."""

    before: FiguresView = Field(alias="from")
    after: FiguresView = Field(alias="to")


class TokenPair(BaseModel):
    """What the context costs with the current policies and with the others."""

    before: int = Field(alias="from")
    after: int = Field(alias="to")


class OutcomeView(BaseModel):
    """What a case got."""

    right: bool = Field(description="Whether it got what is expected and nothing else by search.")
    injected: list[dict[str, Any]]
    missed: list[dict[str, Any]] = Field(description="With the change that would help.")
    unexpected: list[dict[str, Any]] = Field(description="With the change that would help.")


class OutcomePair(BaseModel):
    """What a case got with the current policies and with the others."""

    before: OutcomeView = Field(alias="from")
    after: OutcomeView = Field(alias="to")


class CaseResultView(BaseModel):
    """One case under both policies."""

    id: str
    question: str
    error: str | None = Field(description="Why it could not be compared; then the rest is empty.")
    same: bool | None = Field(description="Whether the same request would be sent.")
    tokens: TokenPair | None
    added: list[str] = Field(description="Resources that would be placed in addition.")
    removed: list[str]
    changed: list[str] = Field(description="Resources that would be placed differently; `/diff` says how.")
    outcome: OutcomePair | None


class CaseRunResult(BaseModel):
    """What would be different, and how good it would be."""

    total: int = Field(description=f"How many cases were asked for; the first {MAX_RUN} of them are run.")
    compared: int
    changed: int
    failed: int
    figures: FiguresPair
    items: list[CaseResultView]


class EvaluationCaseRoutes(msgspec.Struct, frozen=True):
    """The saved cases of a workspace."""

    cases: EvaluationCases
    trial: CaseTrial

    def list_routes(self) -> Iterator[ApiRoute]:
        route = partial(ApiRoute, role=Role.EDITOR, tag=TAG)
        yield route(
            method="GET",
            path=PATH,
            handler=self.list,
            summary="List the saved cases, oldest first",
            query=ListQuery,
            responses={200: CasePage},
        )
        yield route(
            method="POST",
            path=PATH,
            handler=self.create,
            summary="Save a case: a question and the resources that it should get",
            body=CaseBody,
            responses={201: CaseView},
            errors=WRITE_ERRORS,
        )
        yield route(
            method="POST",
            path=f"{PATH}/run",
            handler=self.run,
            summary="Compare what cases get with the current policies and with drafts or former versions",
            body=CaseRunBody,
            responses={200: CaseRunResult},
            errors=(NotFound, Conflict, InvalidObject, ServiceUnavailable),
        )
        one = partial(route, path=f"{PATH}/{{case}}", conditional=True)
        yield one(
            method="GET",
            handler=self.get,
            summary="Get a saved case",
            responses={200: CaseView},
            errors=(NotFound,),
        )
        yield one(
            method="PUT",
            handler=self.update,
            summary="Replace a saved case",
            body=CaseBody,
            responses={200: CaseView},
            errors=WRITE_ERRORS,
        )
        yield one(
            method="DELETE",
            handler=self.delete,
            summary="Delete a saved case",
            responses={204: None},
            errors=WRITE_ERRORS,
        )

    async def list(self, call: ApiCall[ListQuery, None]) -> ApiReply:
        every = self.cases.list_all(call.workspace)
        found = [one for one in every if call.query.accepts(one.shape.question, one.id, *one.shape.expect)]
        return ApiReply(paginate(found, call.query, _build_view))

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        case = self.cases.get(call.workspace, call.path["case"])
        return reply_if_changed(call, _build_view(case), case.tag)

    async def create(self, call: ApiCall[None, CaseBody]) -> ApiReply:
        case = await self.cases.create(call.principal, call.body)
        return reply_created(f"{PATH}/{case.id}", _build_view(case), case.tag)

    async def update(self, call: ApiCall[None, CaseBody]) -> ApiReply:
        allow_replacing(call, f"cases/{self.cases.get(call.workspace, call.path['case']).id}")
        case = await self.cases.update(call.principal, call.path["case"], call.body, call.if_match)
        return ApiReply(_build_view(case), etag=case.tag)

    async def delete(self, call: ApiCall[None, None]) -> ApiReply:
        await self.cases.delete(call.principal, call.path["case"], call.if_match)
        return reply_empty()

    async def run(self, call: ApiCall[None, CaseRunBody]) -> ApiReply:
        caller, sent = call.principal, call.body
        wanted = [self.cases.get(call.workspace, id) for id in sent.cases or ()]
        chosen = wanted or self.cases.list_all(call.workspace)
        tried = await self.trial.run(caller, chosen[:MAX_RUN], sent.build_choice(caller, sent.as_of), sent.model)
        return ApiReply({"total": len(chosen), **describe_trial(tried)})


def _build_view(case: SavedCase) -> CaseView:
    return CaseView.model_validate(
        {
            **case.shape.model_dump(),
            "id": case.id,
            "version": case.record.version,
            "updated_at": to_datetime(case.record.at),
            "updated_by": case.record.by,
        }
    )
