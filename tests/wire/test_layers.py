"""Agent, session, request: what each layer says, and which of them holds, seen in the outgoing request."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.contract_policies import names_in, system_text, text
from tests.support.gateway import Client, Thread, running_gateway
from tests.support.management_client import manage
from tests.support.semantic_gateway import (
    run_indexing,
    running_embeddings,
    wait_until_indexed,
    write_cosine_calibration,
)
from tests.support.upstream import Upstream, call, say

ASKED = "Where is the red harbour bridge?"
# By words: three that answer, and one that is near to the first of them only.
RESOURCES: dict[str, Any] = {
    "base": text("Always here.", name="Base"),
    "one": text("red harbour bridge keeper timetable winter", name="One", mode="semantic"),
    "two": text("red harbour bridge tolls and fares", name="Two", mode="semantic"),
    "three": text("red harbour bridge history since 1890", name="Three", mode="semantic"),
    "near": text("keeper timetable winter summer holidays", name="Near", mode="semantic"),
    "more": text("On demand.", name="More", mode="on_demand"),
}
WITHOUT = object()  # the layer says nothing

Outgoing = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """One setting on three layers, and where it shows."""

    agent: Any
    session: Any
    request: Any  # WITHOUT: requests cannot say it
    see: Callable[[Outgoing], Any]  # what holds, as it shows in the outgoing request
    otherwise: Any  # what shows if no layer says anything
    to_agent: Callable[[Any], dict[str, Any]]
    to_session: Callable[[Any], dict[str, Any]]
    to_request: Callable[[Any], dict[str, Any]] = field(default=lambda value: {})


def plain(name: str) -> dict[str, Any]:
    one: Callable[[Any], dict[str, Any]] = lambda value: {name: value}  # noqa: E731
    return {"to_agent": one, "to_session": one, "to_request": one}


def selection(name: str, **fixed: Any) -> dict[str, Any]:
    one: Callable[[Any], dict[str, Any]] = lambda value: {"selection": {**fixed, name: value}}  # noqa: E731
    return {"to_agent": one, "to_session": one, "to_request": lambda value: {"context": one(value)}}


def count_picks(sent: Outgoing) -> int:
    return len([name for name in names_in(sent) if name not in ("Base", "Near")])


def see_placement(sent: Outgoing) -> str:
    picked = "red harbour bridge keeper"
    if picked in system_text(sent):
        return "system"
    return "turn_user" if picked in str(sent["messages"][-1]["content"]) else "turn"


def make_alias(name: str) -> str:
    return f"{name}-set".replace("_", "-")


EAGER = {"min_score": 0.0, "include_score": 1.0}
SETTINGS = {
    "temperature": Setting(0.1, 0.2, 0.3, lambda sent: sent.get("temperature"), None, **plain("temperature")),
    "top_p": Setting(0.1, 0.2, 0.3, lambda sent: sent.get("top_p"), None, **plain("top_p")),
    "max_tokens": Setting(11, 12, 13, lambda sent: sent.get("max_tokens"), None, **plain("max_tokens")),
    "model": Setting("m-a", "m-s", "m-r", lambda sent: sent["model"], "m-large", **plain("model")),
    "placement": Setting(
        "turn", "turn_user", WITHOUT, see_placement, "system", *[lambda value: {"placement": value}] * 2
    ),
    "max_turns": Setting(
        1, 2, WITHOUT, lambda sent: 1 if sent.get("tool_choice") == "none" else 2, 2,
        *[lambda value: {"max_turns": value}] * 2,
    ),
    "inject": Setting(
        WITHOUT, False, "on", lambda sent: "on" if "Base" in names_in(sent) else False, "on",
        lambda value: {}, lambda value: {"inject": value}, lambda value: {"context": {"inject": value}},
    ),
    "budget": Setting(
        {"total": 0, "max": 500}, 500, 1, lambda sent: count_picks(sent) > 0, True,
        lambda value: {"budget": value}, lambda value: {"budget": value},
        lambda value: {"context": {"budget": value}},
    ),
    "enabled": Setting(False, True, False, lambda sent: count_picks(sent) > 0, True, **selection("enabled")),
    "top_n": Setting(0, 1, 2, count_picks, 3, **selection("top_n", **EAGER)),
    "min_score": Setting(
        0.0, 1.0, 0.0, lambda sent: 0.0 if count_picks(sent) else 1.0, 0.0, **selection("min_score", include_score=1.0)
    ),
    "preset": Setting(
        "aggressive", "conservative", "aggressive",
        lambda sent: "aggressive" if "Near" in names_in(sent) else "conservative", "conservative",
        **selection("preset"),
    ),
    "expansion": Setting(
        {"depth": 1, "threshold": 0.3}, {"depth": 0}, {"depth": 1}, lambda sent: "Near" in names_in(sent), False,
        **selection("expansion"),
    ),
}  # fmt: skip
SEEN = {  # where what shows is not the value itself
    "budget": {"agent": False, "session": True, "request": False},
    "enabled": {"agent": False, "session": True, "request": False},
    "expansion": {"agent": True, "session": False, "request": True},
}
AGENTS = {
    make_alias(name): {"contexts": ["all"], **setting.to_agent(setting.agent)} for name, setting in SETTINGS.items()
}


@pytest.fixture(scope="module")
def gateway(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    directory: Path = tmp_path_factory.mktemp("layers")
    policies = {
        "contexts": {"all": {"resources": RESOURCES}},
        "agents": {**AGENTS, "unset": {"contexts": ["all"]}, "forgetful": {"contexts": ["all"], "retain": False}},
    }
    with running_embeddings(thread) as embeddings:
        semantic = {
            **{"enabled": True, "embedder": embeddings.settings, "milliseconds": 5000},
            "calibration": write_cosine_calibration(directory),
        }
        started = running_gateway(thread, directory, scripted.base_url, policies=policies, semantic=semantic)
        with started as client, run_indexing(client):
            wait_until_indexed(client)
            yield client


def expect(name: str, setting: Setting, layers: tuple[bool, bool, bool]) -> Any:
    """What shows by the narrowest layer that says something."""
    for layer, said in zip(("request", "session", "agent"), layers, strict=True):
        if said and getattr(setting, layer) is not WITHOUT:
            return SEEN.get(name, {}).get(layer, getattr(setting, layer))
    return setting.otherwise


LAYERS = list(product((False, True), repeat=3))


@pytest.mark.parametrize(
    "layers", LAYERS, ids=["".join("RSA"[i] * said for i, said in enumerate(one)) or "none" for one in LAYERS]
)
@pytest.mark.parametrize("name", SETTINGS)
async def test_the_narrowest_layer_that_says_something_holds(
    gateway: Client, upstream: Upstream, name: str, layers: tuple[bool, bool, bool]
) -> None:
    setting, (by_request, by_session, by_agent) = SETTINGS[name], layers
    agent, session = make_alias(name) if by_agent else "unset", f"{name}-{layers}".replace(" ", "")
    if by_session:
        body = {"settings": setting.to_session(setting.session)}
        assert (await manage(gateway, "PUT", f"/sessions/{session}", body)).status == 200
    said: dict[str, Any] = {"model": f"agent:{agent}"}
    if by_request and setting.request is not WITHOUT:
        said |= setting.to_request(setting.request)
    expected = expect(name, setting, layers)
    if name == "expansion" and by_request and not by_agent:
        expected = False  # its own threshold is that of the configuration, which nothing reaches
    for _ in range(2):  # a request changes nothing for the next one
        upstream.will(say("Done."))
        answered = await gateway.chat(ASKED, session=session, **said)
        assert answered.status == 200, answered.text
        assert setting.see(upstream.requests[-1]) == expected
    if by_request and setting.request is not WITHOUT:
        upstream.will(say("Done."))
        await gateway.chat(ASKED, session=session, model=f"agent:{agent}")
        assert setting.see(upstream.requests[-1]) == expect(name, setting, (False, by_session, by_agent))


@pytest.mark.parametrize(
    ("agent", "retain", "kept"),
    [("unset", None, True), ("unset", False, False), ("forgetful", None, False), ("forgetful", "session", True)],
)
async def test_the_session_says_before_the_agent_whether_what_was_fetched_stays(
    gateway: Client, upstream: Upstream, agent: str, retain: Any, kept: bool
) -> None:
    session = f"retain-{agent}-{retain}"
    if retain is not None:
        await manage(gateway, "PUT", f"/sessions/{session}", {"settings": {"retain": retain}})
    upstream.will(call("get_context_resource", resource_id="all/more"), say("Done."), say("Done."))
    for _ in range(2):
        assert (await gateway.chat("Hello", session=session, agent=agent)).status == 200
    assert ("On demand." in system_text(upstream.requests[-1])) is kept


async def test_settings_are_shown_as_they_were_set(gateway: Client) -> None:
    settings = {
        "tool_permission": "approve",
        "retain": "session",
        "selection": {"enabled": False, "expansion": {"depth": 2, "threshold": 0.4, "top_n": 1}, "top_n": 4},
    }
    assert (await manage(gateway, "PUT", "/sessions/shown", {"settings": settings})).status == 200
    shown = orjson.loads((await manage(gateway, "GET", "/sessions/shown")).raw)["settings"]
    assert (shown["tool_permission"], shown["retain"]) == ("approve", True)
    assert {name: shown["selection"][name] for name in settings["selection"]} == settings["selection"]
    again = await manage(gateway, "PUT", "/sessions/shown", {"settings": shown})
    assert orjson.loads(again.raw)["settings"] == shown


@pytest.mark.parametrize(
    "settings",
    [
        {"selection": {"expansion": {"depth": 4}}},
        {"selection": {"expansion": {"top_n": 51}}},
        {"selection": {"expansion": {"threshold": 2}}},
        {"selection": {"enabled": "no"}},
        {"tool_permission": "ask"},
        {"retain": "forever"},
    ],
)
async def test_faulty_settings_are_refused_for_sessions_and_requests(gateway: Client, settings: dict[str, Any]) -> None:
    refused = await manage(gateway, "PUT", "/sessions/faulty", {"settings": settings})
    assert refused.status == 422
    if "selection" in settings:
        answered = await gateway.chat("Hello", context=settings)
        assert (answered.status, answered.error["param"].split(".")[:2]) == (400, ["context", "selection"])


async def test_requests_at_once_in_one_session_do_not_share_their_settings(gateway: Client, upstream: Upstream) -> None:
    upstream.will(*[say("Done.")] * 20)
    wanted = [number % 4 for number in range(20)]
    await asyncio.gather(
        *(
            gateway.chat(
                f"{ASKED} {number}", session="busy", agent="unset", context={"selection": {**EAGER, "top_n": top_n}}
            )
            for number, top_n in enumerate(wanted)
        )
    )
    found = {sent["messages"][-1]["content"]: count_picks(sent) for sent in upstream.requests[-20:]}
    assert found == {f"{ASKED} {number}": min(top_n, 3) for number, top_n in enumerate(wanted)}
