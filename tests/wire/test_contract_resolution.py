"""CONTRACT §1.4, §1.5 and §2: which contexts apply, and what remains of their resources."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest

from tests.support.contract_policies import BODY, POLICIES, TAG, about, ask, names_in, system_text, text
from tests.support.gateway import Client, Start, Thread, running_gateway
from tests.support.upstream import Upstream, say


@pytest.fixture(scope="module")
def house(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with running_gateway(thread, tmp_path_factory.mktemp("resolution"), scripted.base_url, POLICIES) as client:
        yield client


async def sent(client: Client, upstream: Upstream, *headers: tuple[str, str], **said: str) -> dict[str, Any]:
    upstream.reset()
    upstream.will(say("Done."))
    reply = await ask(client, [*headers, *about(**said)])
    assert reply.status == 200, reply.raw
    return upstream.requests[0]


async def names(client: Client, upstream: Upstream, *headers: tuple[str, str], **said: str) -> list[str]:
    return names_in(await sent(client, upstream, *headers, **said))


async def test_without_an_agent_the_request_takes_part(house: Client, upstream: Upstream) -> None:
    assert await names(house, upstream, prompt="inside") == []  # placed by its template
    assert await names(house, upstream, content="site/shop") == ["Kind"]


async def test_an_agent_or_its_profile_that_lists_contexts_takes_part(house: Client, upstream: Upstream) -> None:
    assert await names(house, upstream, agent="kind") == ["Kind"]
    assert await names(house, upstream, agent="calm") == ["Kind"]


async def test_an_explicit_inject_wins(house: Client, upstream: Upstream) -> None:
    assert await names(house, upstream, agent="willing") == ["Corporate"]
    assert await sent(house, upstream, agent="unwilling") == BODY


async def test_not_taking_part_means_nothing_from_any_level_no_default_and_no_tools(
    house: Client, upstream: Upstream
) -> None:
    request = await sent(house, upstream, agent="helper", prompt="bare", content="site/shop", include="house/extra")
    assert request == BODY | {"messages": [{"role": "system", "content": "Help."}, *BODY["messages"]]}


async def test_the_global_default_only_where_no_level_yields_a_context(house: Client, upstream: Upstream) -> None:
    assert await names(house, upstream) == ["Corporate"]
    assert await names(house, upstream, content="empty", prompt="bare", profile="empty") == ["Corporate"]
    assert await names(house, upstream, content="site/shop") == ["Kind"]
    assert await names(house, upstream, profile="seller") == ["List"]


@pytest.mark.parametrize("content", ["77", "site/blog", "/site/blog", "site/blog/post", "site/blog/new/page"])
async def test_content_by_id_path_or_longest_known_prefix(house: Client, upstream: Upstream, content: str) -> None:
    assert await names(house, upstream, content=content) == ["Blog", "Length"]


async def test_content_of_which_nothing_is_known(house: Client, upstream: Upstream) -> None:
    for content in ("nowhere/blog", "staff"):  # the second is for other readers
        reply = await ask(house, about(content=content))
        assert (reply.status, reply.error["code"]) == (400, "unknown_content")
        assert "staff" not in reply.error["message"].replace(f"'{content}'.", "")


async def test_merging_adds_the_contexts_above_and_the_nearest_else_replaces_them(
    house: Client, upstream: Upstream
) -> None:
    block = system_text(await sent(house, upstream, content="site/blog"))
    assert block.partition("\n\n--- Focused Content")[0] == (
        f"--- Context [{TAG}] ---\n[Blog]\nTone: Casual\nAudience: Buyers\n\n[Length]\nBe short.\n--- End [{TAG}] ---"
    )
    assert await names(house, upstream, content="site/shop") == ["Kind"]


async def test_a_merged_voice_stands_where_the_broadest_stood(house: Client, upstream: Upstream) -> None:
    assert await names(house, upstream, agent="writer", content="site/blog") == ["Blog", "Kind", "Length"]


async def test_a_resource_that_several_levels_bring_is_placed_once_at_its_first_position(
    house: Client, upstream: Upstream
) -> None:
    assert await names(house, upstream, agent="writer", profile="calm", content="site/shop") == ["Kind", "Corporate"]


async def test_of_clashing_resources_the_narrower_level_wins_on_one_level_the_later(
    house: Client, upstream: Upstream
) -> None:
    assert await names(house, upstream, agent="seller") == ["Offer"]
    assert await names(house, upstream, agent="clerk") == ["Offer"]
    assert await names(house, upstream, agent="seller", exclude="sale/offer") == ["List"]


async def test_languages(house: Client, upstream: Upstream) -> None:
    assert await names(house, upstream, agent="translator") == ["Sie", "Hi"]
    assert await names(house, upstream, agent="translator", language="de-AT") == ["Sie", "Hi"]
    assert await names(house, upstream, agent="translator", language="en") == ["Hi"]


KEYS: dict[str, dict[str, Any]] = {
    "ann": {"rights": []},
    "desk": {"rights": ["act_as_user"]},
    "shop": {"agent": "kind"},
    "narrow": {"agents": ["kind"]},
}
AUTH = {"keys": [{"name": name, "sha256": sha256(name.encode()).hexdigest(), **key} for name, key in KEYS.items()]}
MANDATORY = POLICIES["contexts"] | {
    "legal": {"mandatory": True, "resources": {"imprint": text("Name the owner.", name="Imprint")}},
    "plain": {"resources": {"kind": text("Be kind.", name="Kind"), "law": text("Obey.", name="Law", mandatory=True)}},
}


@pytest.fixture(scope="module")
def keyed(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A gateway with keys and mandatory contexts."""
    directory = tmp_path_factory.mktemp("keyed")
    policies = POLICIES | {"contexts": MANDATORY}
    with running_gateway(thread, directory, scripted.base_url, policies, auth=AUTH) as client:
        yield client


def key(name: str) -> tuple[str, str]:
    return "authorization", f"Bearer {name}"


async def test_readers_are_checked_against_the_key_and_the_user_it_acts_for(keyed: Client, upstream: Upstream) -> None:
    assert await names(keyed, upstream, key("narrow"), agent="kind") == ["Imprint", "Kind", "Law"]
    assert await names(keyed, upstream, key("desk"), agent="hr") == ["Imprint", "Open"]
    assert await names(keyed, upstream, key("desk"), agent="hr", user="ann") == ["Imprint", "Pay", "Open"]
    assert await names(keyed, upstream, key("ann"), agent="hr") == ["Imprint", "Pay", "Open"]


async def test_a_forbidden_resource_is_an_unknown_resource(keyed: Client, upstream: Upstream) -> None:
    reply = await ask(keyed, [key("desk"), *about(include="personnel/pay")])
    assert (reply.status, reply.error["code"]) == (400, "unknown_resource")


async def test_a_mandatory_context_applies_to_every_request_and_cannot_be_switched_off(
    keyed: Client, upstream: Upstream
) -> None:
    assert await names(keyed, upstream, key("ann")) == ["Imprint", "Corporate"]
    assert await names(keyed, upstream, key("ann"), inject="off") == ["Imprint"]
    assert await names(keyed, upstream, key("ann"), exclude="legal/imprint") == ["Imprint", "Corporate"]
    assert await names(keyed, upstream, key("ann"), agent="unwilling") == ["Imprint"]
    assert await names(keyed, upstream, key("ann"), budget="0") == ["Imprint"]


async def test_a_mandatory_resource_cannot_be_switched_off(keyed: Client, upstream: Upstream) -> None:
    assert await names(keyed, upstream, key("ann"), agent="kind", exclude="plain/kind,plain/law") == ["Imprint", "Law"]
    assert await names(keyed, upstream, key("ann"), agent="kind", inject="off") == ["Imprint", "Law"]


async def test_an_agent_bound_to_a_key_cannot_be_switched_off(keyed: Client, upstream: Upstream) -> None:
    assert await names(keyed, upstream, key("shop")) == ["Imprint", "Kind", "Law"]
    assert await names(keyed, upstream, key("shop"), inject="off") == ["Imprint", "Kind", "Law"]
    assert await names(keyed, upstream, key("shop"), exclude="plain/kind") == ["Imprint", "Kind", "Law"]


async def test_a_forbidden_agent_answers_like_an_unknown_one(keyed: Client, upstream: Upstream) -> None:
    forbidden = await ask(keyed, [key("narrow"), *about(agent="editor")])
    unknown = await ask(keyed, [key("narrow"), *about(agent="edxtor")])
    by_model = await ask(keyed, [key("narrow")], BODY | {"model": "agent:editor"})
    assert forbidden.status == unknown.status == by_model.status == 400
    assert forbidden.error | {"message": ""} == unknown.error | {"message": ""}
    assert forbidden.error["message"].replace("editor", "edxtor") == unknown.error["message"]
    assert by_model.error["param"] == "model"


async def test_a_key_whose_agent_is_missing_is_refused(start: Start, upstream: Upstream) -> None:
    keys = [{"sha256": sha256(b"old").hexdigest(), "agent": "retired"}]
    reply = await ask(start(policies=POLICIES, auth={"keys": keys}), [key("old")])
    assert (reply.status, reply.error["code"]) == (503, "unavailable")
