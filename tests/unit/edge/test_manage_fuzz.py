"""Whatever is sent to the management API, the answer is one that the OpenAPI document promises, and never a 500."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.edge.manage.app import get_api_routes
from gateway.edge.manage.contexts import NewContext
from gateway.policies.shapes import AgentShape, ResourceShape
from tests.support.managed_policies import FILES, TEXT, ManagedPolicies

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**64), 2**64),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
    st.sampled_from(["house", "seo", "a", "always", "2999-01-01", "9999-12-31T23:59:59Z", "{", "{vars.x}", "agent:x"]),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
RESOURCES = st.dictionaries(st.sampled_from([*ResourceShape.model_fields, "id", "ref"]), VALUES, max_size=5)
GOOD_OR_BAD = RESOURCES | RESOURCES.map(lambda drawn: {"id": "a", **TEXT, **drawn})
FIELDS = sorted({*AgentShape.model_fields, *NewContext.model_fields, "template", "order"})
BODIES = st.one_of(
    VALUES,
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4),
    st.builds(
        lambda alias, fields, resources: {"alias": alias, **fields, "resources": resources},
        st.sampled_from(["seo", "brand", "x", "Bad"]),
        st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=2),
        st.lists(GOOD_OR_BAD, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "order"]), GOOD_OR_BAD),
    ),
    GOOD_OR_BAD,
)
NAMES = st.sampled_from(["seo", "brand", "house", "writing", "a", "x", "%2F", "%00", "..", "1", "2"])


@st.composite
def requests(draw: st.DrawFn, count: int) -> tuple[int, list[str], bytes]:
    return draw(st.integers(0, count - 1)), draw(st.lists(NAMES, min_size=2, max_size=2)), orjson_or_raw(draw(BODIES))


def orjson_or_raw(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # integers beyond 64 bits
        return repr(value).replace("'", '"').encode()


async def seeded(directory: Path) -> ManagedPolicies:
    house = ManagedPolicies(directory)
    house.write(FILES)
    await house.policies.start()
    await house.made("contexts", "brand", resources={"a": TEXT})
    await house.made("agents", "seo", contexts=["brand"])
    return house


def test_no_request_is_answered_otherwise_than_promised() -> None:
    with tempfile.TemporaryDirectory() as directory, asyncio.Runner() as runner:
        house = runner.run(seeded(Path(directory)))
        routes = get_api_routes(house.manage)

        @settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(requests(len(routes)))
        def check(request: tuple[int, list[str], bytes]) -> None:
            number, names, body = request
            route = routes[number]
            path = route.path_format
            for name, value in zip(route.param_convertors, names, strict=False):
                path = path.replace(f"{{{name}}}", value)
            answer = runner.run(house.ask(route.method, path, body))
            assert answer.status != 500, answer.raw
            assert house.policies.error is None

        check()
