"""The outgoing body: defaults, templates, and what stays as it is."""

from collections.abc import Callable
from typing import Any

import msgspec
import orjson
import pytest
from msgspec import Raw

from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.domain.agent import Placement
from gateway.domain.chat import OutgoingBody
from gateway.domain.injection import Injection, PlacedTexts, PlacementTarget
from gateway.domain.json_text import escape_json
from gateway.domain.principal import ANONYMOUS
from gateway.domain.scope import ContextRequest
from gateway.domain.selection import Selection
from gateway.domain.snapshot import Snapshot
from gateway.domain.upstream import Capabilities
from gateway.errors import MissingVariable
from gateway.injection.compose import choose_target, compose
from gateway.scopes.scope import build_scope

POLICIES = """
profiles: {calm: {temperature: 0.2, top_p: 0.9, max_tokens: 100}}
agents:
  editor: {profile: calm, temperature: 0.7}
  bare: {}
prompts:
  plain: {template: "Sum up: {input}"}
  page: {template: "Describe {content} to {vars.who}."}
  braces: {template: "{{input}} is {input} {{}}"}
  inside: {template: "{context}\\n\\nQ: {input}"}
  untemplated: {}
content: {site: {body: "The {input} page."}, empty: {}}
"""
INJECTION = Injection(
    Selection(), "STABLE", "VOLATILE", texts=PlacedTexts(b"", escape_json("STABLE"), escape_json("VOLATILE"))
)
NOTHING = Injection(Selection())
TURNS = [
    {"role": "user", "content": "First"},
    {"role": "assistant", "content": "…"},
    {"role": "user", "content": "Why?"},
]


@pytest.fixture
def composed(policies: Callable[[str], Snapshot]) -> Callable[..., OutgoingBody]:
    snapshot = policies(POLICIES)

    def run(body: dict[str, Any], injection: Injection = NOTHING, model: str = "m", **asked: Any) -> OutgoingBody:
        request = CHAT.decode(orjson.dumps({"model": "m", "messages": TURNS, **body}))
        scope = build_scope(ContextRequest(**asked), None, ANONYMOUS, snapshot)
        target = choose_target(model, scope, Capabilities(), Placement.SYSTEM)
        text = snapshot.contents[scope.node.id].body if scope.node is not None else ""
        return compose(request, request.messages, scope, injection, target, text)

    return run


def plain(outgoing: OutgoingBody) -> dict[str, Any]:
    return dict(msgspec.json.decode(msgspec.json.encode(outgoing.fields)))


def last_text(outgoing: OutgoingBody) -> Any:
    return msgspec.json.decode(outgoing.messages[-1])["content"]


def test_a_request_that_nothing_is_done_to_is_unchanged(composed: Callable[..., OutgoingBody]) -> None:
    assert composed({"unheard_of": 1}).unchanged is True
    assert composed({}, agent="bare").unchanged is True
    assert composed({}, prompt="untemplated").unchanged is True


def test_whatever_changes_a_request_is_noticed(composed: Callable[..., OutgoingBody]) -> None:
    assert composed({}, INJECTION).unchanged is False
    assert composed({}, model="other").unchanged is False
    assert composed({"context": {}}).unchanged is False
    assert composed({}, agent="editor").unchanged is False
    assert composed({}, prompt="plain").unchanged is False


def test_the_context_object_does_not_go_out(composed: Callable[..., OutgoingBody]) -> None:
    assert "context" not in composed({"context": {"agent": "bare"}}).fields


def test_defaults_fill_what_the_request_leaves_open_the_agents_before_the_profiles(
    composed: Callable[..., OutgoingBody],
) -> None:
    assert plain(composed({}, agent="editor")) == {"model": "m", "temperature": 0.7, "top_p": 0.9, "max_tokens": 100}
    assert plain(composed({}, profile="calm"))["temperature"] == 0.2


def test_what_the_request_says_stays(composed: Callable[..., OutgoingBody]) -> None:
    fields = plain(composed({"temperature": 0, "top_p": 1, "max_tokens": 5}, agent="editor"))
    assert (fields["temperature"], fields["top_p"], fields["max_tokens"]) == (0, 1, 5)


def test_null_says_nothing(composed: Callable[..., OutgoingBody]) -> None:
    assert plain(composed({"temperature": None}, agent="editor"))["temperature"] == 0.7


def test_max_completion_tokens_counts_as_having_said_max_tokens(composed: Callable[..., OutgoingBody]) -> None:
    fields = plain(composed({"max_completion_tokens": 9}, agent="editor"))
    assert (fields["max_completion_tokens"], "max_tokens" in fields) == (9, False)


def test_a_template_replaces_the_last_user_text_only(composed: Callable[..., OutgoingBody]) -> None:
    outgoing = composed({}, prompt="plain")
    assert [msgspec.json.decode(message) for message in outgoing.messages[:2]] == TURNS[:2]
    assert last_text(outgoing) == "Sum up: Why?"


def test_content_is_the_nodes_body_else_the_input_and_nothing_is_expanded_twice(
    composed: Callable[..., OutgoingBody],
) -> None:
    asked = {"prompt": "page", "vars": {"who": "{content}"}}
    assert last_text(composed({}, **asked, content="site")) == "Describe The {input} page. to {content}."
    for nothing in ({}, {"content": "empty"}):
        assert last_text(composed({}, **asked, **nothing)) == "Describe Why? to {content}."


def test_doubled_braces_are_braces(composed: Callable[..., OutgoingBody]) -> None:
    assert last_text(composed({}, prompt="braces")) == "{input} is Why? {}"


def test_a_variable_that_the_request_does_not_give_is_a_fault(composed: Callable[..., OutgoingBody]) -> None:
    with pytest.raises(MissingVariable) as caught:
        composed({}, prompt="page")
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "missing_variable", "context.vars.who")


def test_a_template_with_context_takes_the_blocks_and_they_stand_nowhere_else(
    composed: Callable[..., OutgoingBody],
) -> None:
    outgoing = composed({}, INJECTION, prompt="inside")
    assert last_text(outgoing) == "STABLE\n\nVOLATILE\n\nQ: Why?"
    assert b"STABLE" not in b"".join(bytes(message) for message in outgoing.messages[:-1])
    assert len(outgoing.messages) == 3


def test_instructions_go_into_the_system_message_even_so(composed: Callable[..., OutgoingBody]) -> None:
    injection = Injection(Selection(), "STABLE", texts=PlacedTexts(escape_json("You edit."), escape_json("STABLE")))
    outgoing = composed({}, injection, prompt="inside")
    assert msgspec.json.decode(outgoing.messages[0]) == {"role": "system", "content": "You edit."}


def test_a_template_without_context_leaves_the_blocks_in_the_system_message(
    composed: Callable[..., OutgoingBody],
) -> None:
    outgoing = composed({}, INJECTION, prompt="plain")
    assert msgspec.json.decode(outgoing.messages[0])["content"] == "STABLE\n\nVOLATILE"


def test_images_stay_where_they_are_and_the_text_parts_become_one(composed: Callable[..., OutgoingBody]) -> None:
    image, sound = {"type": "image_url", "image_url": {"url": "data:x"}}, {"type": "input_audio"}
    parts = [image, {"type": "text", "text": "What"}, sound, {"type": "text", "text": "is it?"}]
    outgoing = composed({"messages": [{"role": "user", "content": parts}]}, prompt="plain")
    assert last_text(outgoing) == [image, {"type": "text", "text": "Sum up: What\nis it?"}, sound]


def test_parts_without_a_text_get_one_first(composed: Callable[..., OutgoingBody]) -> None:
    parts = [{"type": "image_url"}]
    outgoing = composed({"messages": [{"role": "user", "content": parts}]}, prompt="plain")
    assert last_text(outgoing) == [{"type": "text", "text": "Sum up: "}, *parts]


def test_without_a_user_message_the_template_becomes_one(composed: Callable[..., OutgoingBody]) -> None:
    outgoing = composed({"messages": []}, prompt="plain")
    assert msgspec.json.decode(outgoing.messages[-1]) == {"role": "user", "content": "Sum up: "}


def test_a_history_with_hidden_turns_is_a_change(policies: Callable[[str], Snapshot]) -> None:
    request = CHAT.decode(b'{"model": "m", "messages": [{"role": "user", "content": "x"}]}')
    scope = build_scope(ContextRequest(), None, ANONYMOUS, policies(POLICIES))
    longer = [*request.messages, Raw(b"{}")]
    assert compose(request, longer, scope, NOTHING, PlacementTarget("m")).unchanged is False
