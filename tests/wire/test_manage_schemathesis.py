"""schemathesis against the OpenAPI document of a real gateway: every answer is one that the document promises.

`MANAGE_EXAMPLES=500` makes it as thorough as there is time for.
"""

import os
import re
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import orjson
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from msgspec.structs import fields
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.python._constants.orchestrator import make_constants_value_source
from schemathesis.python._constants.pool import ConstantsPool
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from gateway.edge.manage.app import get_api_routes
from gateway.edge.manage.composition import ManagementParts, build_management_app
from gateway.edge.manage.openapi import build_openapi
from gateway.resources.registry import load_registry
from gateway.settings import Settings
from tests.support.gateway import Thread
from tests.support.schemathesis_cases import BY_OPERATION, may_be_refused, steer
from tests.support.upstream import Upstream
from tests.support.workspaces import OURS, Stage, running_stage

EXAMPLES = int(os.environ.get("MANAGE_EXAMPLES", "0"))
SOME = 10  # of so many cases at the edges of a schema one is tried when there is little time
AUTHORIZED = {"Authorization": f"Bearer {OURS.secret('admin')}"}
# What no schema says: that a name is known or taken, that a key grants more than its maker has, that a tag is stale.
ALSO_GOOD = ["2xx", "304", "403", "404", "409", "412", "422"]
ALSO_BAD = ["400", "404", "405", "409", "412", "413", "415", "422"]
BYTES = (
    "text/markdown",
    "text/html",
    "application/pdf",
    "application/octet-stream",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/yaml",
)


def run(examples: int) -> settings:
    health = list(HealthCheck)
    return settings(max_examples=examples, derandomize=True, deadline=None, database=None, suppress_health_check=health)


@schemathesis.serializer(*BYTES)
def as_bytes(context: schemathesis.SerializationContext, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@pytest.fixture(scope="module")
def schema() -> schemathesis.BaseSchema:
    """The document as the route table gives it."""
    none: Any = None
    data = {"upstreams": {"demo": {"kind": "demo"}}, "routes": []}
    parts = ManagementParts(
        Settings.model_validate(data), load_registry(), *[none] * (len(fields(ManagementParts)) - 2)
    )
    config = schemathesis.Config()
    config.projects.default.generation.with_security_parameters = False  # `ignored_auth` tries those itself
    config.projects.default.checks.positive_data_acceptance.expected_statuses = ALSO_GOOD
    config.projects.default.checks.negative_data_rejection.expected_statuses = ALSO_BAD
    routes = get_api_routes(build_management_app(parts))
    return schemathesis.openapi.from_dict(build_openapi(routes), config=config)


# Those of the samples: to make the document takes more than a second, and every worker looks for tests.
LABELS = [f"{method} {path}" for method, path in BY_OPERATION]


class Caller:
    """Sends cases to a gateway that is as it was before each of them."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.session = requests.Session()
        self.session.trust_env = False  # there is no proxy in between
        self.base_url = f"http://127.0.0.1:{stage.client.port}/api/v1"

    def send(self, case: schemathesis.Case[Any], *, probe_keys: bool = True) -> int:
        """The status of an answer that is as it has to be; `probe_keys` sends it with none and a wrong one, too."""
        self.stage.restore()
        response = case.call(base_url=self.base_url, session=self.session, headers=AUTHORIZED)
        excluded: list[Any] = [] if probe_keys else [ignored_auth]
        if may_be_refused(case):
            excluded.append(positive_data_acceptance)
        case.validate_response(response, excluded_checks=excluded, headers=AUTHORIZED)
        return response.status_code


@pytest.fixture(scope="module")
def caller(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    with running_stage(thread, tmp_path_factory.mktemp("schemathesis"), scripted.base_url, (OURS,)) as stage:
        caller = Caller(stage)
        yield caller
        caller.session.close()


@pytest.fixture(scope="module")
def constants(schema: schemathesis.BaseSchema) -> ConstantsPool | None:
    """What schemathesis finds in the code; the same for all operations."""
    return make_constants_value_source(schema)


def test_the_gateway_serves_this_document(caller: Caller, schema: schemathesis.BaseSchema) -> None:
    served = caller.session.get(f"{caller.base_url}/openapi.json", headers=AUTHORIZED)
    assert served.json() == schema.raw_schema


def test_every_operation_of_the_document_is_tried(schema: schemathesis.BaseSchema) -> None:
    paths = schema.raw_schema["paths"].items()
    assert sorted(LABELS) == sorted(f"{method.upper()} {path}" for path, methods in paths for method in methods)


def test_no_operation_ignores_a_parameter_that_it_does_not_know(caller: Caller) -> None:
    answers = {}
    for label in LABELS:
        method, path = label.split(" ")
        address = f"{caller.base_url}{re.sub('{.*?}', 'x', path)}?dry_run_=1"
        answer = caller.session.request(method, address, headers=AUTHORIZED)
        answers[label] = answer.status_code, "'dry_run_'" in answer.text
    assert {label: answer for label, answer in answers.items() if answer != (422, True)} == {}


@pytest.mark.parametrize("label", LABELS)
def test_every_answer_is_one_that_is_promised(
    label: str, caller: Caller, schema: schemathesis.BaseSchema, constants: ConstantsPool | None
) -> None:
    probed = False

    @run(EXAMPLES or 3)
    def check(case: schemathesis.Case[Any]) -> None:
        nonlocal probed
        steer(case, often=0.85)
        # Whoever has no key is refused before the request is read: once for every operation, if there is little time.
        caller.send(case, probe_keys=bool(EXAMPLES) or not probed)
        probed = True

    method, path = label.split(" ")
    built: Any = build_operation_test(
        config=schema.config,
        operation=schema[path][method],
        test_func=check,
        given_kwargs={},
        feedback=FeedbackSources(constants_value_source=constants),
    )
    # Left out here: for every example that runs, hypothesis seeds all sources of chance, even if nothing is sent.
    examples = built.hypothesis_explicit_examples
    built.hypothesis_explicit_examples = [one for one in examples if is_tried(one.kwargs["case"])]
    built()


def is_tried(case: schemathesis.Case[Any]) -> bool:
    """Whether there is time for it; what chance or an example in the document brings always is."""
    assert case.meta is not None
    return bool(EXAMPLES) or case.meta.phase.name.value != "coverage" or crc32(repr(case).encode()) % SOME == 0


def test_every_operation_is_really_reached(caller: Caller, schema: schemathesis.BaseSchema) -> None:
    """A run that sees refusals only proves nothing: of good requests at least a third has to succeed everywhere."""
    shares = {}
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        statuses = seen(caller, operation)
        shares[operation.label] = sum(status < 400 for status in statuses) / len(statuses)
    shares.pop("DELETE /sign-in")  # it needs a cookie: tests/wire/test_sign_in.py
    assert {label: share for label, share in shares.items() if share < 1 / 3} == {}
    assert sum(shares.values()) / len(shares) > 0.7


def seen(caller: Caller, operation: schemathesis.APIOperation[Any, Any, Any, Any]) -> list[int]:
    """The statuses of good requests."""
    statuses: list[int] = []

    @run(max(EXAMPLES // 5, 3))
    @given(operation.as_strategy())
    def check(case: schemathesis.Case[Any]) -> None:
        steer(case, often=1, tamper=0)
        statuses.append(caller.send(case, probe_keys=False))

    check()
    return statuses


def test_an_answer_that_the_document_does_not_promise_is_noticed(
    caller: Caller, schema: schemathesis.BaseSchema
) -> None:
    """The checks really look: the same answers against a document that promises something else."""
    raw = orjson.loads(orjson.dumps(schema.raw_schema))
    raw["components"]["schemas"]["ContextView"]["properties"]["version"] = {"type": "string"}
    del raw["paths"]["/profiles"]["get"]["responses"]["200"]
    other = schemathesis.openapi.from_dict(raw)
    for path in ("/contexts/{context}", "/profiles"):
        case = other[path]["GET"].Case(path_parameters={"context": OURS.name()} if "{" in path else {})
        response = case.call(base_url=caller.base_url, session=caller.session, headers=AUTHORIZED)
        assert response.status_code == 200
        case.validate_response(response, checks=[not_a_server_error])
        with pytest.raises(BaseExceptionGroup):
            case.validate_response(response, headers=AUTHORIZED)
