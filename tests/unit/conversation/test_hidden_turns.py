"""Hidden turns: kept, found again, put back."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import orjson
import pytest
from msgspec import Raw

from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.conversation.hidden_turn import HiddenMessage, HiddenTurn, OwnResult, decode_turn
from gateway.conversation.hidden_turns import ConversationOwner, HiddenTurns, TurnPointer
from gateway.conversation.history_hash import find_keys
from gateway.conversation.turn import FunctionCall
from gateway.domain.chat import ChatRequest
from gateway.domain.principal import ANONYMOUS, Principal
from gateway.domain.selection import Omission, Selection
from gateway.errors import StoreError
from gateway.fair_queue import FairThreads
from gateway.stores.memory_ephemeral import MemoryEphemeralStore

Messages = list[dict[str, Any]]
OWNER = ConversationOwner("w", "p", "u", "s")
GET = "get_context_resource"


def make_selection(*identities: str, reason: str | None = None) -> Selection:
    candidates: list[Any] = [
        SimpleNamespace(resource=SimpleNamespace(id=identity, data=None)) for identity in identities
    ]
    return Selection(dropped=tuple(Omission(one, reason) for one in candidates))


ALL = make_selection("style", "names")


def make_call(identity: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def make_result(identity: str, content: str = "theirs") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identity, "content": content}


def say(text: str | None, *calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **fields, "tool_calls": list(calls)}


def make_request(*messages: dict[str, Any]) -> ChatRequest:
    raws = [Raw(orjson.dumps(message)) for message in messages]
    return ChatRequest(CHAT, b"[" + b",".join(map(bytes, raws)) + b"]", {}, raws, "m", stream=False)


def hide(*messages: dict[str, Any], text: str = "") -> HiddenTurn:
    """The turn that such messages make: calls of ours are named GET and read what their arguments say."""
    hidden = []
    for message in messages:
        calls = [call["function"] for call in message["tool_calls"]]
        results = [
            OwnResult(at, f"[{call['arguments']}]", (call["arguments"],))
            for at, call in enumerate(calls)
            if call["name"] == GET
        ]
        hidden.append(HiddenMessage(Raw(orjson.dumps(message)), tuple(results)))
    theirs = [one for one in messages[-1]["tool_calls"] if one["function"]["name"] != GET]
    seen = tuple(FunctionCall(one["id"], one["function"]["name"], one["function"]["arguments"]) for one in theirs)
    return HiddenTurn(seen, text, tuple(hidden))


QUESTION = {"role": "user", "content": "Hi"}
STYLE, NAMES = make_call("own_1", GET, "style"), make_call("own_2", GET, "names")
OSLO, ROME = make_call("oslo", "weather", '{"city":"Oslo"}'), make_call("rome", "weather", '{"city":"Rome"}')
MIXED = say("Hm.", STYLE, OSLO, NAMES, ROME, reasoning="secret")
TURN = hide(MIXED, text="Hm.")
OURS = [make_result("own_1", "[style]"), make_result("own_2", "[names]")]
SEEN = say("Hm.", OSLO, ROME)
THEIRS = [make_result("oslo", "rain"), make_result("rome", "sun")]


async def restore(
    messages: Messages,
    turn: HiddenTurn = TURN,
    selection: Selection = ALL,
    before: Sequence[dict[str, Any]] = (QUESTION,),
) -> Messages:
    """What goes upstream for a history, if this turn was kept after some messages."""
    hidden = HiddenTurns(MemoryEphemeralStore())
    await hidden.keep(CHAT, OWNER, make_request(*before), turn, set())
    history = await hidden.restore(CHAT, OWNER, make_request(*messages), selection, set())
    return [orjson.loads(bytes(one)) for one in history]


async def test_a_kept_turn_is_put_back_as_the_model_wrote_it() -> None:
    assert await restore([QUESTION, SEEN, *THEIRS]) == [QUESTION, MIXED, *OURS, *THEIRS]


async def test_its_bytes_stay_as_they_are() -> None:
    raw = Raw(orjson.dumps(MIXED)[:-1] + b',"big":123456789012345678901234567890, "x":1.0}')
    turn = HiddenTurn(TURN.calls, TURN.text, (HiddenMessage(raw, TURN.messages[0].results),))
    hidden = HiddenTurns(MemoryEphemeralStore())
    await hidden.keep(CHAT, OWNER, make_request(QUESTION), turn, set())
    history = await hidden.restore(CHAT, OWNER, make_request(QUESTION, SEEN, *THEIRS), ALL, set())
    assert bytes(history[1]) == bytes(raw)


async def test_turns_of_ours_before_it_are_put_back_too() -> None:
    own, last = say("First.", STYLE), say("Then.", OSLO)
    turn = hide(own, last, text="First.Then.")
    seen = say("First.\n\nThen.", OSLO)
    assert await restore([QUESTION, seen, THEIRS[0]], turn) == [QUESTION, own, OURS[0], last, THEIRS[0]]


async def test_the_client_s_order_of_calls_does_not_matter() -> None:
    assert await restore([QUESTION, say("Hm.", ROME, OSLO), *THEIRS]) == [QUESTION, MIXED, *OURS, *THEIRS]


async def test_ids_that_the_client_gave_go_upstream() -> None:
    renamed = [{**OSLO, "id": "x1"}, {**ROME, "id": "x2"}]
    theirs = [make_result("x1", "rain"), make_result("x2", "sun")]
    calls = [STYLE, renamed[0], NAMES, renamed[1]]
    assert await restore([QUESTION, say("Hm.", *renamed), *theirs]) == [
        QUESTION,
        {**MIXED, "tool_calls": calls},
        *OURS,
        *theirs,
    ]


@pytest.mark.parametrize("text", ["Hm.", "[redacted]"])
async def test_ids_of_ours_make_way_for_the_client_s(text: str) -> None:
    renamed = [{**OSLO, "id": "own_1"}, {**ROME, "id": "own_1_1"}]
    theirs = [make_result("own_1", "rain"), make_result("own_1_1", "sun")]
    history = await restore([QUESTION, say(text, *renamed), *theirs])
    assert [call["id"] for call in history[1]["tool_calls"]] == ["own_1_2", "own_1", "own_2", "own_1_1"]
    assert [one["tool_call_id"] for one in history[2:]] == ["own_1_2", "own_2", "own_1", "own_1_1"]


@pytest.mark.parametrize("text", ["[redacted]", "", None, [{"type": "text", "text": "Other"}]])
async def test_the_client_s_own_text_wins(text: Any) -> None:
    seen = {**say("", OSLO, ROME), "content": text, "name": "editor"}
    assert await restore([QUESTION, seen, *THEIRS]) == [
        QUESTION,
        {**seen, "tool_calls": [STYLE, OSLO, NAMES, ROME]},
        *OURS,
        *THEIRS,
    ]


async def test_a_changed_text_takes_the_texts_of_earlier_turns_with_it() -> None:
    turn = hide(say("First.", STYLE, reasoning="secret"), say("Then.", OSLO), text="First.Then.")
    seen = say("[redacted]", OSLO)
    assert await restore([QUESTION, seen, THEIRS[0]], turn) == [QUESTION, say(None, STYLE), OURS[0], seen, THEIRS[0]]


SPLIT = [
    [say("Hm.", OSLO), THEIRS[0], say(None, ROME), THEIRS[1]],
    [say("Hm.", OSLO), say(None, ROME), *THEIRS],
    [{"role": "assistant", "content": "Hm."}, say(None, OSLO, ROME), *THEIRS],
    [{"role": "assistant", "content": "Hm."}, say(None, OSLO), THEIRS[0], say(None, ROME), THEIRS[1]],
    [{"role": "assistant", "content": "H"}, {"role": "assistant", "content": "m."}, say("", OSLO, ROME), *THEIRS],
]


@pytest.mark.parametrize("split", SPLIT)
async def test_a_message_that_was_split_is_put_together(split: Messages) -> None:
    assert await restore([QUESTION, *split]) == [QUESTION, MIXED, *OURS, *THEIRS]


@pytest.mark.parametrize("split", SPLIT[:2])
async def test_texts_of_a_split_message_win_too(split: Messages) -> None:
    first, *rest = split
    rest = [{**one, "content": "Two."} if one.get("tool_calls") else one for one in rest]
    expected = {**say("One.\n\nTwo.", STYLE, OSLO, NAMES, ROME)}
    assert await restore([QUESTION, {**first, "content": "One."}, *rest]) == [QUESTION, expected, *OURS, *THEIRS]


async def test_a_text_of_its_own_that_was_changed_stays_so() -> None:
    text = {"role": "assistant", "content": "[redacted]"}
    history = await restore([QUESTION, text, say(None, OSLO, ROME), *THEIRS])
    assert history == [QUESTION, text, say(None, STYLE, OSLO, NAMES, ROME), *OURS, *THEIRS]


async def test_messages_that_were_joined_are_taken_apart() -> None:
    hidden = HiddenTurns(MemoryEphemeralStore())
    first, second = say("A.", STYLE, OSLO), say("B.", NAMES, ROME)
    await hidden.keep(CHAT, OWNER, make_request(QUESTION), hide(first, text="A."), set())
    between = [QUESTION, say("A.", OSLO), THEIRS[0]]
    await hidden.keep(CHAT, OWNER, make_request(*between), hide(second, text="B."), set())
    joined = make_request(QUESTION, say("A.\nB.", OSLO, ROME), *THEIRS)
    history = [orjson.loads(bytes(one)) for one in await hidden.restore(CHAT, OWNER, joined, ALL, set())]
    assert history == [
        QUESTION,
        say("A.\nB.", STYLE, OSLO),
        OURS[0],
        THEIRS[0],
        say(None, NAMES, ROME),
        OURS[1],
        THEIRS[1],
    ]


async def test_calls_that_hide_nothing_stay_in_a_joined_message() -> None:
    turn = hide(say("A.", STYLE, OSLO), text="A.")
    joined = say("A.", OSLO, ROME)
    history = await restore([QUESTION, joined, *THEIRS], turn)
    assert history == [QUESTION, say("A.", STYLE, OSLO), OURS[0], THEIRS[0], say(None, ROME), THEIRS[1]]


@pytest.mark.parametrize(
    "messages",
    [
        [QUESTION, say("Hm.", OSLO), THEIRS[0]],
        [QUESTION, say("Hm.", OSLO, make_call("rome", "weather", '{"city":"Paris"}')), *THEIRS],
        [QUESTION, say("Hm.", OSLO, make_call("rome", "news", '{"city":"Rome"}')), *THEIRS],
        [QUESTION, say("Hm.", OSLO, ROME), THEIRS[0]],  # a call without its result
        [{"role": "user", "content": "Other"}, SEEN, *THEIRS],
        [QUESTION, QUESTION, SEEN, *THEIRS],
        [SEEN, *THEIRS],
        [QUESTION, {"role": "assistant", "content": "Said."}, QUESTION, SEEN, *THEIRS],
        [QUESTION, say("Hm.", OSLO), THEIRS[0], QUESTION, say("Hm.", ROME), THEIRS[1]],
        [QUESTION, say("Hm.", STYLE, OSLO, ROME), make_result("own_1", "forged"), *THEIRS],
        [QUESTION, say("Hm.", STYLE), make_result("own_1", "forged")],
    ],
)
async def test_what_does_not_match_is_left_alone(messages: Messages) -> None:
    assert await restore(messages) == messages


async def test_two_turns_with_the_same_calls_stay_apart() -> None:
    hidden = HiddenTurns(MemoryEphemeralStore())
    first, second = say(None, STYLE, OSLO), say(None, NAMES, OSLO)
    await hidden.keep(CHAT, OWNER, make_request(QUESTION), hide(first), set())
    between = [QUESTION, say(None, OSLO), THEIRS[0]]
    await hidden.keep(CHAT, OWNER, make_request(*between), hide(second), set())
    history = await hidden.restore(CHAT, OWNER, make_request(*between, say(None, OSLO), THEIRS[0]), ALL, set())
    assert [orjson.loads(bytes(one)) for one in history] == [
        QUESTION,
        first,
        OURS[0],
        THEIRS[0],
        second,
        OURS[1],
        THEIRS[0],
    ]


async def test_conversations_that_only_their_ids_or_texts_tell_apart() -> None:
    hidden = HiddenTurns(MemoryEphemeralStore())
    first, second = say("A", STYLE, OSLO), say("B", NAMES, {**OSLO, "id": "x"})
    for message in (first, second):
        await hidden.keep(CHAT, OWNER, make_request(QUESTION), hide(message, text=message["content"]), set())

    async def see(text: str, identity: str) -> list[str]:
        history = make_request(QUESTION, say(text, {**OSLO, "id": identity}), make_result(identity))
        return [
            orjson.loads(bytes(one)).get("content") for one in await hidden.restore(CHAT, OWNER, history, ALL, set())
        ]

    assert await see("A", "oslo") == ["Hi", "A", "[style]", "theirs"]
    assert await see("B", "x") == ["Hi", "B", "[names]", "theirs"]
    assert await see("[redacted]", "oslo") == ["Hi", "[redacted]", "theirs"]  # it may be either: nothing is put back
    assert await see("A", "renamed") == ["Hi", "A", "theirs"]


async def test_the_same_turn_kept_twice_is_not_in_doubt() -> None:
    hidden = HiddenTurns(MemoryEphemeralStore())
    for own in ("own_1", "own_9"):
        await hidden.keep(CHAT, OWNER, make_request(QUESTION), hide(say(None, {**STYLE, "id": own}, OSLO)), set())
    history = make_request(QUESTION, say("[redacted]", OSLO), THEIRS[0])
    assert len(await hidden.restore(CHAT, OWNER, history, ALL, set())) == 4


@pytest.mark.parametrize(
    ("selection", "calls", "results"),
    [
        (make_selection("style"), [STYLE, OSLO, ROME], OURS[:1]),
        (make_selection("names"), [OSLO, NAMES, ROME], OURS[1:]),
        (make_selection("style", "names", reason="over_budget"), [STYLE, OSLO, NAMES, ROME], OURS),
        (make_selection("style", "names", reason="no_tools"), [STYLE, OSLO, NAMES, ROME], OURS),
        (make_selection("style", "names", reason="excluded"), [OSLO, ROME], []),
        (make_selection("style", "names", reason="language"), [OSLO, ROME], []),
        (Selection(), [OSLO, ROME], []),
    ],
)
async def test_results_that_the_caller_cannot_reach_any_more_stay_out(
    selection: Selection, calls: list[Any], results: Messages
) -> None:
    history = await restore([QUESTION, SEEN, *THEIRS], selection=selection)
    whole = len(results) == 2
    expected = {**(MIXED if whole else SEEN), "tool_calls": calls}
    assert history == [QUESTION, expected, *results, *THEIRS]


async def test_a_turn_of_ours_that_is_out_of_reach_leaves_nothing_behind() -> None:
    turn = hide(say("First.", STYLE), say("Then.", NAMES, OSLO), text="First.Then.")
    seen = say("First.\n\nThen.", OSLO)
    history = await restore([QUESTION, seen, THEIRS[0]], turn, make_selection("names"))
    assert history == [QUESTION, {**seen, "tool_calls": [NAMES, OSLO]}, OURS[1], THEIRS[0]]


async def test_a_turn_is_kept_for_its_time_only() -> None:
    now = [100.0]
    hidden = HiddenTurns(MemoryEphemeralStore(clock=lambda: now[0]), ttl=10)
    await hidden.keep(CHAT, OWNER, make_request(QUESTION), TURN, set())
    request = make_request(QUESTION, SEEN, *THEIRS)
    now[0] += 9
    assert await hidden.restore(CHAT, OWNER, request, ALL, set()) != request.messages
    now[0] += 2
    assert await hidden.restore(CHAT, OWNER, request, ALL, set()) is request.messages


class BrokenStore(MemoryEphemeralStore):
    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        raise StoreError("down")

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        raise StoreError("down")


async def test_a_store_that_is_down_is_reported() -> None:
    hidden, kept, restored = HiddenTurns(BrokenStore()), set[str](), set[str]()
    request = make_request(QUESTION, SEEN, *THEIRS)
    await hidden.keep(CHAT, OWNER, make_request(QUESTION), TURN, kept)
    assert await hidden.restore(CHAT, OWNER, request, ALL, restored) is request.messages
    assert (kept, restored) == ({"store"}, {"store"})


@pytest.mark.parametrize("content", ["Hi", 'What are "tool_calls"?'])
async def test_a_history_without_calls_needs_no_store(content: str) -> None:
    plain = make_request({"role": "user", "content": content})
    assert await HiddenTurns(BrokenStore()).restore(CHAT, OWNER, plain, ALL, set()) is plain.messages


def encode_with_positions(*positions: int) -> bytes:
    results = tuple(OwnResult(position, "x") for position in positions)
    return msgspec.json.encode(HiddenTurn(TURN.calls, "Hm.", (HiddenMessage(TURN.messages[0].message, results),)))


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"nonsense",
        b"null",
        b'{"calls":[["oslo","weather","{}"]],"messages":[{"role":"assistant"}]}',  # as earlier versions stored it
        msgspec.json.encode(HiddenTurn(TURN.calls, "", ())),
        msgspec.json.encode(HiddenTurn((), "Hm.", TURN.messages)),
        msgspec.json.encode(HiddenTurn(TURN.calls[:1], "Hm.", TURN.messages)),
        msgspec.json.encode(HiddenTurn(TURN.calls, "Hm.", (HiddenMessage(Raw(b"{}")),))),
        encode_with_positions(0, 9),
        encode_with_positions(0, 0),
    ],
)
async def test_what_is_no_hidden_turn_is_ignored(stored: bytes) -> None:
    assert decode_turn(stored, CHAT) is None
    request = make_request(QUESTION, SEEN, *THEIRS)
    keys = find_keys(CHAT, OWNER.encode(), request.messages)
    assert keys is not None
    for places in ([*keys.exact.values()], [*keys.lenient.values()]):
        hidden = HiddenTurns(MemoryEphemeralStore())
        for place in places:
            await hidden.store.put(place, stored)
        assert await hidden.restore(CHAT, OWNER, request, ALL, set()) is request.messages


async def test_a_pointer_to_nothing_is_ignored() -> None:
    hidden, request = HiddenTurns(MemoryEphemeralStore()), make_request(QUESTION, SEEN, *THEIRS)
    keys = find_keys(CHAT, OWNER.encode(), request.messages)
    assert keys is not None
    await hidden.store.put(keys.lenient[0], msgspec.json.encode(TurnPointer("turn:gone", "")))
    assert await hidden.restore(CHAT, OWNER, request, ALL, set()) is request.messages


async def test_a_large_body_is_read_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    real = FairThreads.run

    async def run(threads: FairThreads, workspace: str, work: Any) -> Any:
        ran.append(workspace)
        return await real(threads, workspace, work)

    monkeypatch.setattr(FairThreads, "run", run)
    question = {"role": "user", "content": "x" * 300_000}
    assert (await restore([question, SEEN, *THEIRS], before=[question]))[1] == MIXED
    assert ran == [OWNER.workspace] * 2  # as work of the workspace: others do not wait for it


async def test_calls_that_are_nested_too_deeply_are_no_harm() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    call = make_call("oslo", "weather", deep)
    turn = hide(say(None, STYLE, call))
    assert (await restore([QUESTION, say(None, call), THEIRS[0]], turn))[2] == OURS[0]
    raw = Raw(b'{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":' + deep.encode() + b"}}]}")
    hidden = HiddenTurns(MemoryEphemeralStore())
    await hidden.keep(
        CHAT,
        OWNER,
        make_request(QUESTION),
        HiddenTurn(turn.calls, "", (HiddenMessage(raw, (OwnResult(0, "x"),)),)),
        set(),
    )
    messages = [Raw(orjson.dumps(QUESTION)), raw]
    request = ChatRequest(CHAT, b'"tool_calls"', {}, messages, "m", stream=False)
    assert await hidden.restore(CHAT, OWNER, request, ALL, set()) is messages


def test_an_owner_is_named_by_its_key_user_and_session() -> None:
    keyed = Principal("name", workspace="w", key="k")
    assert ConversationOwner.from_principal(keyed, "u", "s") == ConversationOwner("w", "k", "u", "s")
    assert ConversationOwner.from_principal(ANONYMOUS, None, None) == ConversationOwner("default", "anonymous")


@pytest.mark.parametrize("changed", ["workspace", "principal", "user", "session"])
async def test_hidden_turns_are_the_owner_s_alone(changed: str) -> None:
    hidden = HiddenTurns(MemoryEphemeralStore())
    await hidden.keep(CHAT, OWNER, make_request(QUESTION), TURN, set())
    parts = {name: getattr(OWNER, name) for name in ("workspace", "principal", "user", "session")}
    request = make_request(QUESTION, SEEN, *THEIRS)
    other = ConversationOwner(**parts | {changed: "other"})
    assert await hidden.restore(CHAT, other, request, ALL, set()) is request.messages
    assert await hidden.restore(CHAT, ConversationOwner(**parts), request, ALL, set()) != request.messages
