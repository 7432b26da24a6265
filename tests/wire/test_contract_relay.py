"""CONTRACT §5.2 and §9: where nothing is done to a request, bytes pass as they are, both ways."""

from collections.abc import Iterator

import pytest

from tests.support.contract_policies import BODY, POLICIES, about, ask
from tests.support.gateway import Client, Thread, running_gateway
from tests.support.upstream import Upstream, raw_events, reply, say, sse

OFF = about(inject="off")
ODD = (
    b'  {"model" :"m-large",\n\t"messages":[ '
    b'{"role":"user","content":"caf\\u00e9 \\/ \\ud83d\\ude00 \xc3\xa9","x":1.50} ],\r\n'
    b'"seed":123456789012345678901234567890, "float": 1e-400, "unheard_of":{"b":1,"a":[ ]},"user":"a","user":"b" } \n'
)


@pytest.fixture(scope="module")
def house(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with running_gateway(thread, tmp_path_factory.mktemp("relay"), scripted.base_url, POLICIES) as client:
        yield client


async def test_request_bytes_are_identical_upstream(house: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    assert (await ask(house, OFF, ODD)).status == 200
    assert upstream.bodies == [ODD]
    assert upstream.seen[0].path == "/v1/chat/completions"


async def test_an_agent_that_takes_no_part_and_says_nothing_relays_too(house: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    await ask(house, about(agent="unwilling"), ODD)
    assert upstream.bodies == [ODD]


async def test_what_is_not_changed_keeps_its_bytes_in_a_changed_request(house: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    await ask(house, about(agent="kind"), ODD)
    (body,) = upstream.bodies
    for kept in (
        b'{"role":"user","content":"caf\\u00e9 \\/ \\ud83d\\ude00 \xc3\xa9","x":1.50}',
        b"123456789012345678901234567890",
        b"1e-400",
        b'{"b":1,"a":[ ]}',
    ):
        assert kept in body


async def test_reply_bytes_are_identical(house: Client, upstream: Upstream) -> None:
    odd = b' {"choices" : [ ], "x":12345678901234567890123, "y":"\\u00e9", "z":1.0 }\n'
    for headers in (OFF, about(agent="kind")):
        upstream.will(reply(odd))
        answer = await ask(house, headers)
        assert (answer.status, answer.raw) == (200, odd)


async def test_a_relayed_reply_is_not_read_as_json(house: Client, upstream: Upstream) -> None:
    upstream.will(reply(b"{not json"))
    assert (await ask(house, OFF)).raw == b"{not json"


async def test_stream_bytes_are_identical(house: Client, upstream: Upstream) -> None:
    events = [
        b": comment\n\n",
        b'event: x\r\ndata: {"a": 1}\r\n\r\n',
        b'data: {"choices":[{"delta":{"content":"a\xe2\x80\xa8b"},"finish_reason" : "stop"}]}\n\n',
        b"data: [DONE]\n\n",
    ]
    whole = b"".join(events)
    for size in (1, 7, len(whole)):
        upstream.will(raw_events([whole[at : at + size] for at in range(0, len(whole), size)]))
        answer = await ask(house, OFF, BODY | {"stream": True})
        assert answer.raw == whole
        assert answer.headers["content-type"].startswith("text/event-stream")


async def test_an_unfinished_event_is_withheld(house: Client, upstream: Upstream) -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "Half"}}]}
    upstream.will(raw_events([chunk, b'data: {"choices": [{"unfin']))
    answer = await ask(house, OFF, BODY | {"stream": True})
    assert answer.raw.startswith(sse(chunk) + b"data: {")
    assert b"unfin" not in answer.raw
    assert (len(answer.errors), answer.done) == (1, False)


async def test_a_finished_stream_without_done_gets_its_done(house: Client, upstream: Upstream) -> None:
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    upstream.will(raw_events([last]))
    assert (await ask(house, OFF, BODY | {"stream": True})).raw == sse(last) + b"data: [DONE]\n\n"


async def test_an_error_event_of_the_upstream_passes_alone(house: Client, upstream: Upstream) -> None:
    told = {"error": {"message": "Overloaded", "type": "t", "param": None, "code": None}}
    upstream.will(raw_events([told]))
    assert (await ask(house, OFF, BODY | {"stream": True})).raw == sse(told)


async def test_a_stream_flag_that_is_false_is_no_change(house: Client, upstream: Upstream) -> None:
    body = b'{"stream":false,"model":"m-large","messages":[]}'
    upstream.will(say("Done."))
    await ask(house, OFF, body)
    assert upstream.bodies == [body]
