"""Every route × every caller × whose objects: nothing is open that the oracle here does not open."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from http.client import HTTPConnection
from typing import Any, get_args

import pytest
from msgspec.structs import replace
from starlette.types import ASGIApp

from gateway.domain.principal import Principal, Role
from gateway.edge.access import AccessControl, AccessMiddleware
from gateway.edge.errors import ErrorBoundary
from gateway.edge.manage.app import build_api_app, get_api_routes
from gateway.edge.manage.problems import send_problem
from gateway.edge.manage.routes import ApiRoute, Handler
from tests.support.api_samples import SAMPLES, Sample
from tests.support.gateway import ClientReply, Thread
from tests.support.upstream import Upstream
from tests.support.workspaces import KINDS, NONE, OURS, THEM, TWIN, Stage, World, running_stage

Ask = Callable[[str, str, bytes | None, dict[str, str]], ClientReply]

CALLERS: dict[str, str | None] = {"nobody": None, "wrong": "cg-unknown", **{role: OURS.secret(role) for role in Role}}
FOR_CHAT = {("POST", "/resolve"), ("POST", "/contexts/resolve"), ("POST", "/diff"), ("GET", "/openapi.json")}
FOR_CHAT |= {("GET", "/me"), ("POST", "/sign-in"), ("DELETE", "/sign-in")}
FOR_ADMINS = ("/keys", "/audit", "/receipts")
ADOPTION = {"/adopt", "/release"}  # tests/wire/test_adoption.py looks at these
SHARED = {"/resource-types", "/resource-types/{type}", "/openapi.json", "/quotas"}  # nothing with a name in it
SHARED |= {"/stats", "/stats/quality", "/stats/series", "/stats/suggestions"}  # tests/wire/test_stats.py looks at these
SHARED |= {"/adopted", "/health", *ADOPTION}
TRIALS = {"/contexts/{context}/preview", "/contexts/{context}/find"}  # the context need not exist yet
SHARED |= TRIALS  # tests/wire/test_trials.py looks at these
SHARED |= {"/me", "/sign-in"}  # tests/wire/test_sign_in.py looks at these
SHARED |= {
    "/content/{node:path}/activity"
}  # it answers nothing; whose activity it is, the contract of content stores checks
FOREIGN_MARKS = (THEM.mark, TWIN.mark)
GENERATED = re.compile(
    rb'(?<=")(\d{4}-\d\d-\d\dT[\d:.]+Z|cgw?[-_][\w-]{20,}|(?:key|case)-[0-9a-f]{12}|[0-9a-f]{19,64})(?=")'
)
COUNTED = re.compile(rb'"version":\d+|"snapshot":"[0-9a-f]{12}"')
TAGS = re.compile(r'"\d+-[0-9a-f]{8}"|(?:key|case)-[0-9a-f]{12}|[0-9a-f]{64}')


def needed(method: str, path: str) -> Role:
    """Who may use a route, by the rules of the house and not by the route table."""
    if (method, path) in FOR_CHAT or path.startswith("/sessions"):
        return Role.CHAT
    return Role.ADMIN if path.startswith(FOR_ADMINS) or path in ADOPTION else Role.EDITOR


def expected(sample: Sample, caller: str, whose: World) -> int:
    """The status that a request has to have."""
    if caller in ("nobody", "wrong"):
        return 401
    if list(Role).index(Role(caller)) < list(Role).index(needed(*sample.route)):
        return 403
    if whose is not OURS and sample.owned and not creates(sample):
        return 404
    return sample.status


def creates(sample: Sample) -> bool:
    """Whether it makes what its path names, if there is no such thing."""
    if sample.path.startswith("/sessions"):
        return sample.method == "PUT" or (sample.method == "POST" and sample.path.endswith("/items"))
    return sample.path in TRIALS or (sample.method == "PUT" and sample.path.endswith("/draft"))


@dataclass(frozen=True)
class Matrix:
    """Sends samples and notes everything that is not as it has to be."""

    ask: Ask
    stage: Stage

    def deviations(self, sample: Sample, callers: Sequence[str] = (*reversed(CALLERS),)) -> Iterator[str]:
        for caller in callers:
            for by_id in (False, True):
                yield from self._own(sample, caller, by_id)
                if sample.target(THEM) != sample.target(NONE):
                    yield from self._foreign(sample, caller, by_id)
            if sample.payload(THEM) != sample.payload(NONE):
                yield from self._named_inside(sample, caller)

    def _own(self, sample: Sample, caller: str, by_id: bool) -> Iterator[str]:
        answer, touched = self._sent(sample, caller, OURS, OURS, by_id)
        wanted, where = expected(sample, caller, OURS), f"{caller}: {sample.label}"
        if answer.status != wanted:
            yield f"{where} answers {answer.status} instead of {wanted}"
        if "ours" in touched and wanted >= 400:
            yield f"{where} changes something although it is refused"
        if wanted < 300 and sample.writes and "ours" not in touched:
            yield f"{where} changes nothing"
        yield from (f"{where} shows {mark}" for mark in FOREIGN_MARKS if mark.encode() in answer.raw)
        # The audit of a workspace tells what was asked for there, by whatever name.
        if b"them-" in answer.raw and sample.path != "/audit":
            yield f"{where} shows names of another workspace"
        if wanted < 300 and sample.method == "GET" and sample.path not in SHARED and not shows_own(answer):
            yield f"{where} shows nothing of its own workspace"
        yield from changed_others(where, touched)

    def _foreign(self, sample: Sample, caller: str, by_id: bool) -> Iterator[str]:
        """A path or query that leads into another workspace."""
        answer, touched = self._sent(sample, caller, THEM, OURS, by_id)
        unknown, _ = self._sent(sample, caller, NONE, OURS, by_id)
        wanted, where = expected(sample, caller, THEM), f"{caller} about another workspace: {sample.label}"
        if sample.owned and answer.status != wanted:
            yield f"{where} answers {answer.status} instead of {wanted}"
        if told(answer, THEM) != told(unknown, NONE):
            yield f"{where} is answered unlike an unknown one: {answer.raw!r} and {unknown.raw!r}"
        yield from changed_others(where, touched)

    def _named_inside(self, sample: Sample, caller: str) -> Iterator[str]:
        """A body that names objects of another workspace."""
        answer, touched = self._sent(sample, caller, OURS, THEM)
        unknown, _ = self._sent(sample, caller, OURS, NONE)
        where = f"{caller} with another workspace in the body: {sample.label}"
        if told(answer, THEM) != told(unknown, NONE):
            yield f"{where} is answered unlike an unknown one: {answer.raw!r} and {unknown.raw!r}"
        yield from changed_others(where, touched)

    def filter_deviations(self, route: ApiRoute, samples: dict[tuple[str, str], Sample]) -> Iterator[str]:
        """Every filter of a list with every name of another workspace."""
        sample = samples[route.method, route.path]
        for name in list_filters(route):
            for of_them, of_nobody in zip(list_names(THEM), list_names(NONE), strict=True):
                query = f"{sample.query}&{name}=" if sample.query else f"{name}="
                answer, _ = self._sent(dataclasses.replace(sample, query=query + of_them), "admin", OURS, OURS)
                unknown, _ = self._sent(dataclasses.replace(sample, query=query + of_nobody), "admin", OURS, OURS)
                if told(answer, THEM) != told(unknown, NONE):
                    yield f"{sample.label}?{name}={of_them} is answered unlike an unknown one: {answer.raw!r}"

    def _sent(
        self, sample: Sample, caller: str, path: World, body: World, by_id: bool = False
    ) -> tuple[ClientReply, set[str]]:
        """The answer, and the workspaces that have changed."""
        before = self.stage.restore()
        headers = sample.headers()
        if CALLERS[caller] is not None:
            headers["authorization"] = f"Bearer {CALLERS[caller]}"
        answer = self.ask(sample.method, sample.target(path, by_id), sample.payload(body), headers)
        after = self.stage.read_held()
        return answer, {name for name, held in before.items() if after[name] != held}


def list_filters(route: ApiRoute) -> list[str]:
    """The parameters of a list that take a name."""
    fields = route.query.model_fields if route.method == "GET" and route.query is not None else {}
    named = (field.alias or name for name, field in fields.items() if is_text(field.annotation))
    # Times and places in an order are no names, and samples have the last two.
    return [name for name in named if name not in ("from", "to", "since", "after", "node", "q")]


def is_text(annotation: Any) -> bool:
    return str in (annotation, *get_args(annotation))


def list_names(world: World) -> list[str]:
    """What is only found in one world: names, ids, texts, in the same order for each world."""
    ids = {*world.values.values(), *world.ids.values()} - {"tone", "page", "1", "text"}
    found = [world.mark, world.secret("chat"), f"{world.name()}/tone", *(one for one in world.values.values())]
    found += [value for name, value in world.ids.items() if value in ids and value != world.values[name]]
    return list(dict.fromkeys(found))


def changed_others(where: str, touched: set[str]) -> Iterator[str]:
    return (f"{where} changes the workspace {name}" for name in sorted(touched - {"ours"}))


def shows_own(answer: ClientReply) -> bool:
    """Whether an answer that has to be about our workspace is."""
    return any(word in answer.raw for word in (OURS.mark.encode(), b"ours-", OURS.sha256.encode(), b'"version":'))


@cache
def find_names(world: World) -> re.Pattern[bytes]:
    ids = (world.id(kind) for kind in KINDS)
    return re.compile(
        "|".join((world.mark, world.sha256, world.key, world.case, *ids, world.prefix)).encode(), re.IGNORECASE
    )


def told(answer: ClientReply, world: World) -> Any:
    """An answer without the names of the world that it was asked about, and without what is made up anew each time."""
    raw = find_names(world).sub(b"@", answer.raw)
    headers = {name: value for name, value in answer.headers.items() if name not in ("date", "content-length")}
    shown = {name: TAGS.sub("@", value.replace(world.prefix, "@")) for name, value in headers.items()}
    return answer.status, shown, COUNTED.sub(b"@", GENERATED.sub(b"@", raw))


@pytest.fixture(scope="module")
def stage(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with running_stage(thread, tmp_path_factory.mktemp("matrix"), scripted.base_url) as set_up:
        yield set_up


@pytest.fixture(scope="module")
def routes(stage: Stage) -> tuple[ApiRoute, ...]:
    return get_api_routes(stage.client.app.build_management())


@pytest.fixture(scope="module")
def over_a_socket(stage: Stage) -> Iterator[Matrix]:
    with closing(HTTPConnection("127.0.0.1", stage.client.port, timeout=20)) as connection:

        def ask(method: str, target: str, body: bytes | None, headers: dict[str, str]) -> ClientReply:
            connection.request(method, f"/api/v1{target}", body, headers)
            response = connection.getresponse()
            named = {name.lower(): value for name, value in response.getheaders()}
            return ClientReply(response.status, named, response.read())

        yield Matrix(ask, stage)


def in_process(stage: Stage, access: AccessControl, management: ASGIApp) -> Matrix:
    """The same questions to an app of our own making."""
    app = ErrorBoundary(AccessMiddleware(management, access), send_problem)

    async def asked(method: str, target: str, body: bytes | None, headers: dict[str, str]) -> ClientReply:
        path, _, query = f"/api/v1{target}".partition("?")
        named = {"host": "127.0.0.1", **headers}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in named.items()],
        }
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body or b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await app(scope, receive, send)
        shown = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return ClientReply(sent[0]["status"], shown, b"".join(part.get("body", b"") for part in sent[1:]))

    thread = stage.client.thread
    return Matrix(lambda method, target, body, headers: thread.run(asked(method, target, body, headers)), stage)


@dataclass(frozen=True)
class Fixed:
    """Routes that somebody has tampered with."""

    tampered: tuple[ApiRoute, ...]

    def list_routes(self) -> tuple[ApiRoute, ...]:
        return self.tampered


def with_route(stage: Stage, changed: ApiRoute) -> Matrix:
    """A gateway with one route, and that is another one."""
    gateway = stage.client.app
    return in_process(stage, gateway.access, build_api_app([Fixed((changed,))], gateway.settings.limits))


def as_others(handler: Handler, workspace: str) -> Handler:
    """A handler that looks into another workspace than the caller's."""
    return lambda call: handler(replace(call, principal=replace(call.principal, workspace=workspace)))


def test_every_route_has_a_sample_and_the_role_that_it_should_have(routes: tuple[ApiRoute, ...]) -> None:
    samples = [sample.route for sample in SAMPLES]
    assert sorted(samples) == sorted((route.method, route.path) for route in routes)
    assert len(samples) == len(set(samples))
    wrong = [route.operation_id for route in routes if route.role is not needed(route.method, route.path)]
    assert wrong == []


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.label)
def test_a_route_answers_everybody_as_it_has_to(over_a_socket: Matrix, sample: Sample) -> None:
    assert list(over_a_socket.deviations(sample)) == []


def test_a_filter_that_names_another_workspace_finds_what_an_unknown_name_does(
    over_a_socket: Matrix, routes: tuple[ApiRoute, ...]
) -> None:
    samples = {sample.route: sample for sample in SAMPLES}
    # The audit of a workspace tells what was asked for there, by whatever name.
    filtered = [route for route in routes if list_filters(route) and route.path != "/audit"]
    assert len(filtered) > 20
    found = [one for route in filtered for one in over_a_socket.filter_deviations(route, samples)]
    assert found == []


def test_no_route_takes_a_field_or_a_parameter_that_it_does_not_know(
    over_a_socket: Matrix, routes: tuple[ApiRoute, ...]
) -> None:
    queried = {(route.method, route.path) for route in routes if route.query is not None}
    strange = [
        dataclasses.replace(sample, query=f"{sample.query}&strange=1" if sample.query else "strange=1")
        for sample in SAMPLES
        if sample.route in queried
    ]
    strange += [
        dataclasses.replace(sample, body={**sample.body, "strange": 1})
        for sample in SAMPLES
        if isinstance(sample.body, dict)
    ]
    taken = []
    for sample in strange:
        answer, touched = over_a_socket._sent(sample, "admin", OURS, OURS)
        if answer.status not in (400, 422) or touched:
            taken.append(f"{sample.label}?{sample.query}: {answer.status}")
    assert len(strange) > 80
    assert taken == []


def test_a_filter_that_looks_into_another_workspace_is_noticed(stage: Stage, routes: tuple[ApiRoute, ...]) -> None:
    samples = {sample.route: sample for sample in SAMPLES}
    for path in ("/receipts", "/knowledge/relationships", "/contexts", "/evaluation-cases"):
        (route,) = [one for one in routes if (one.method, one.path) == ("GET", path)]
        leaking = dataclasses.replace(route, handler=as_others(route.handler, THEM.workspace))
        noticed = with_route(stage, leaking).filter_deviations(route, samples)
        assert any(noticed), f"{path} lists what another workspace has and nobody notices"


def test_a_route_that_asks_for_a_lower_role_is_noticed(stage: Stage, routes: tuple[ApiRoute, ...]) -> None:
    samples = {sample.route: sample for sample in SAMPLES}
    for route in routes:
        if route.role is not Role.CHAT:
            lower = dataclasses.replace(route, role=list(Role)[list(Role).index(route.role) - 1])
            noticed = with_route(stage, lower).deviations(samples[route.method, route.path], [lower.role])
            assert any(noticed), f"{route.operation_id} may be used by {lower.role.value} and nobody notices"


@pytest.mark.parametrize("other", [THEM, TWIN], ids=lambda world: world.workspace)
def test_a_handler_that_looks_into_another_workspace_is_noticed(
    stage: Stage, routes: tuple[ApiRoute, ...], other: World
) -> None:
    samples = {sample.route: sample for sample in SAMPLES}
    for route in routes:
        if route.path not in SHARED:
            leaking = dataclasses.replace(route, handler=as_others(route.handler, other.workspace))
            noticed = with_route(stage, leaking).deviations(samples[route.method, route.path])
            assert any(noticed), f"{route.operation_id} serves another workspace and nobody notices"


def test_an_authenticator_that_lets_everybody_in_is_noticed(stage: Stage) -> None:
    class Open:
        keyed = True

        def authenticate(self, headers: Any) -> Principal:
            return Principal("anybody", "ours", role=Role.ADMIN)

        def find_client_bearer(self, headers: Any) -> None:
            return None

    access: Any = stage.client.app.access
    opened = in_process(stage, replace(access, auth=Open()), stage.client.app.build_management())
    assert all(any(opened.deviations(sample)) for sample in SAMPLES[:3])
