"""Nothing that a caller, a tenant or an upstream sends may cost more than linear time.

Every surface that takes text is fed the families of text that make careless code slow, at n, 2n, 4n and 8n.
"""

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from msgspec import Raw
from msgspec.structs import replace

from gateway import sse
from gateway.collectors.contexts import build_merge, settle_conflicts
from gateway.control.diff import list_differences
from gateway.control.search import search
from gateway.control.yaml_writer import format_yaml
from gateway.conversation.dialects.chat.calls import MAX_TURN_CALLS, CallTracker
from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.conversation.dialects.chat.request import find_question
from gateway.conversation.dialects.chat.user_text import replace_user_text
from gateway.conversation.history_hash import find_keys
from gateway.conversation.reply_loop import ReplyLoop
from gateway.conversation.stream_loop import StreamLoop
from gateway.conversation.turn import LoopPlan
from gateway.domain.candidate import Candidate, Level
from gateway.domain.json_text import escape_json
from gateway.domain.name_pattern import matches_pattern
from gateway.domain.node import Node
from gateway.domain.node_tree import NodeTree
from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.domain.scope import RequestItem
from gateway.domain.search import Question
from gateway.domain.selection import Selection
from gateway.domain.session import Session
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.domain.template import fill_parts, parse_template
from gateway.domain.tool_result import ToolResult
from gateway.edge.access import HostCheck, parse_host
from gateway.edge.manage.calls import parse_etags
from gateway.edge.manage.receipts import ReceiptQuery
from gateway.edge.manage.routes import decode_json, parse_json, parse_query
from gateway.edge.manage.sessions import SessionBody, SessionItemBody
from gateway.edge.paths import normalize_path
from gateway.edge.request import read_head
from gateway.edge.routed_model import read_model
from gateway.errors import Faults, GatewayError, UnknownAlias
from gateway.extraction.extract import extract_content
from gateway.extraction.formats import DocumentFormat, decode_html
from gateway.extraction.html import html_to_text
from gateway.injection.blocks import build_volatile_block, flatten
from gateway.interpolation import interpolate
from gateway.links.guard import LinkError, parse_url
from gateway.policies.content_tree import ContentTree, add_stored_nodes
from gateway.policies.file_policies import load_policies
from gateway.policies.files import EntryLocation, PolicyEntry
from gateway.receipts.reported import read_answer, read_usage
from gateway.redaction import Redactor
from gateway.resources.brand_voice import BrandVoiceData
from gateway.resources.registry import load_registry
from gateway.retrieval.tool_runner import GetArguments as ToolArguments
from gateway.retrieval.tool_runner import ToolCallError, decode_arguments, rank_by_words, select_passages
from gateway.scopes.context_request import read_context_request
from gateway.scopes.scope import find_node
from gateway.selection.truncate import truncate
from gateway.semantic.index.lexical import LexicalIndex, extract_terms
from gateway.semantic.index.passages import split_text
from gateway.semantic.search.sentences import split_question
from gateway.sessions.changes import SessionChange, add_items, retain_items
from gateway.settings import DocumentSettings
from gateway.strict_yaml import YamlDocument, parse_yaml
from gateway.tokens import BpeCounter
from gateway.upstreams.demo.request import read_blocks
from gateway.upstreams.http_parser import ReplyFault, ReplyParser
from tests.support.growth import Growth, measure_growth
from tests.support.growth_services import list_service_surfaces
from tests.support.growth_surfaces import list_surfaces

SIZE = 1000  # characters at the beginning; eight times as many in the end
OWN = "get_context_resource"

FAMILIES = {
    "letters": "a",
    "dashes": "-",
    "brackets": "[",
    "braces": "{",
    "closing": "]}",
    "dots": ".",
    "newlines": "\n",
    "spaces": " ",
    "digits": "1",
    "wide": "漢",
    "marks": "\u0315\u0300",
    "short lines": "a\n",
    "sentences": "a. ",
    "csv": "a,1.5;\n",
    "tags": "<a ",
    "quoted tags": '<a q="><a " ',
    "sections": "<![",
    "closed sections": "<![>",
    "cdata": "<![CDATA[",
    "comments": "<!--",
    "references": "&#1",
    "quotes": "\"'",
    "backslashes": "\\",
    "slashes": "a/",
    "escapes": "%2",
    "markers": "--- End ",
    "paragraphs": "a\n\n",
    "commas": "a, ",
    "colons": "a: ",
}

pytestmark = pytest.mark.timing  # exponents of CPU time: a loaded machine can bend them


class NoMaterials:
    """No document and no page."""

    def file(self, path: Path) -> str:
        raise ValueError(path.name)

    def link(self, url: str) -> str | None:
        return url


@dataclass(frozen=True, slots=True)
class Surface:
    """Something that takes text; a `factor` makes inputs longer where each character costs little."""

    work: Callable[[Any], object]
    factor: float = 1
    families: tuple[str, ...] = tuple(FAMILIES)


FEW = ("letters", "newlines", "spaces")  # where the number of pieces counts more than what they are


def resource(number: int = 0, **changes: Any) -> Resource:
    made = Resource(
        f"c/r{number}", "c", "text", "R", Mode.SEMANTIC, ResourceKind.REFERENCE, "", (), None, 0, False, False, (), (),
        "extractive", None, "text",
    )  # fmt: skip
    return replace(made, **changes)


def read_message(text: str) -> object:
    parts = [{"type": "text", "text": text[at : at + 8]} for at in range(0, len(text), 8)]
    messages = [{"role": "user", "content": content} for content in (text, parts, text)]
    chat = CHAT.decode(orjson.dumps({"model": text, "messages": messages}))
    return find_question(chat.messages), replace_user_text(chat.messages, text)


def read_context_object(text: str) -> object:
    names = {"agent": text, "session": text, "content": text, "include": text.split(" "), "vars": {text: text}}
    read_context_request((), Raw(orjson.dumps({**names, "items": [{"name": "n", "text": text}]})))
    return read_context_request((), Raw(orjson.dumps({"language": text, text: 1})))


def read_context_lists(text: str) -> object:
    """The text as names, and cut into as many names as it has words."""
    lists: list[Any] = [text.split(" "), [text], [text[at : at + 4] for at in range(0, len(text), 4)]]
    return [
        call(lambda body: read_context_request((), Raw(orjson.dumps(body))))({name: names, "session": "s"})
        for name in ("contexts", "include", "exclude", "pin", "unpin")
        for names in lists
    ]


def read_request_head(text: str) -> object:
    """The text in every header that is read by name, and as the name of one; then as a tag of a condition."""
    value = text.encode().replace(b"\n", b" ")
    named = (b"host", b"origin", b"authorization", b"x-context-key", b"content-type", b"expect", b"x-request-id")
    head = [call(read_head)([(name, value)]) for name in (*named, value)]
    head.append(call(read_head)([(b"x-context-agent", piece) for piece in value.split(b" ")]))
    call(HostCheck(["gateway.example"])._judge)(value)
    call(parse_host)(b"[" + value)
    return head, parse_etags(value, weak=True), parse_etags(b'"' + value.replace(b" ", b'","'), weak=False)


def change_session(text: str) -> object:
    """As many items as there are words, added and removed."""
    ids = [f"{number}{word}" for number, word in enumerate(text.split(" "))] + list(text)
    session = retain_items(add_items(Session(), ids), ids)
    change = SessionChange(tuple(ids), tuple(reversed(ids)), text)
    return change.apply(session, EMPTY_SNAPSHOT)


def manage_session(text: str) -> object:
    body = {"settings": {"model": text, "selection": {"preset": text}, text: 1}, "content": text}
    call(lambda data: parse_json(SessionBody, orjson.dumps(data)))(body)
    return call(lambda data: parse_json(SessionItemBody, orjson.dumps(data)))({"id": text})


def filter_receipts(text: str) -> object:
    """The text as every filter, and as a query string."""
    value = quote(text)
    for name in ("session", "agent", "content", "resource", "status", "from", "to", "after", "take", value):
        call(lambda raw: parse_query(ReceiptQuery, raw))(f"{name}={value}".encode())
    return call(lambda raw: parse_query(ReceiptQuery, raw))(text.replace("a", "&a=").encode())


def keep_texts(text: str) -> object:
    """A reply as receipts read it: whole, in events, and any bytes."""
    whole = orjson.dumps({"choices": [{"message": {"content": text}}], "usage": {text: 1}})
    events = b"".join(chunk({"content": piece}) for piece in text[: len(text) // 8])
    return [(read_answer(one), read_usage(one)) for one in (whole, events, text.encode())]


class Nowhere:
    """Takes a reply from an upstream and drops it."""

    def receive_head(self, status: int, headers: dict[str, str]) -> None: ...

    def receive_body(self, data: bytes) -> None: ...

    def receive_whole(self, reply: object) -> None: ...

    def complete(self) -> None: ...

    def fail(self, fault: Exception) -> None:
        raise fault


def reply_in_chunks(text: str) -> object:
    """An upstream's reply: the text as its head, as chunks of one byte, as the extension of a chunk, as a trailer."""
    data = text.encode()
    start = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n"
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in data[: len(data) // 4])
    heads = (
        start + b"x: " + data,
        start + data,
        start + b"\r\n" + chunks,
        start + b"\r\n1;" + data,
        start + b"\r\n0\r\n" + data,
    )
    return [call(lambda whole: feed_in_pieces(whole, 7))(whole) for whole in heads]


def feed_in_pieces(data: bytes, size: int) -> object:
    parser = ReplyParser(Nowhere(), 1 << 20)
    for at in range(0, len(data), size):
        parser.feed(data[at : at + size])
    return parser


def read_context_headers(text: str) -> object:
    value = text.encode()
    headers = [(b"x-context-include", value), (b"x-context-exclude", b"%2" + value), (b"x-context-budget", value)]
    return [read_context_request([one], None) for one in headers]


def find_unknown_node(text: str) -> object:
    nodes = {path: Node(path, path, path.rpartition("/")[0] or None, "page", "") for path in ("a", "a/a", "a/a/a")}
    return find_node(text, frozenset(), replace(EMPTY_SNAPSHOT, tree=NodeTree(nodes)), "content")


def load_policy(data: dict[str, Any], tmp_path: Path) -> object:
    (tmp_path / "p.yaml").write_text(format_yaml(data))
    return load_policies(tmp_path, load_registry(), NoMaterials(), 1)


def in_policy(build: Callable[[str], dict[str, Any]], tmp_path: Path) -> Callable[[str], object]:
    return lambda text: load_policy(build(text), tmp_path)


def in_resource(kind: str, build: Callable[[str], Any], **fields: Any) -> Callable[[str], dict[str, Any]]:
    return lambda text: {"contexts": {"c": {"resources": {"r": {"type": kind, "data": build(text), **fields}}}}}


def stream(events: list[bytes], size: int) -> object:
    loop = StreamLoop(LoopPlan(CHAT, {}, [], (), frozenset({OWN})))
    loop.build_request()
    whole = b"".join(events)
    return [loop.feed(whole[at : at + size]) for at in range(0, len(whole), size)]


def chunk(delta: dict[str, Any]) -> bytes:
    return sse.encode_event(orjson.dumps({"id": "1", "choices": [{"index": 0, "delta": delta}]}))


def stream_text(text: str) -> object:
    deltas = [{"content": piece, "reasoning": piece} for piece in text]
    calls = [{"index": 0, "id": "a", "function": {"name": OWN, "arguments": "{}"}}]
    return stream([chunk({"tool_calls": calls}), *map(chunk, deltas)], 1000)


def stream_arguments(text: str) -> object:
    tracker = CallTracker(frozenset({OWN}))
    tracker.take([{"index": 0, "function": {"name": OWN, "arguments": '{"a":"'}}])
    return [tracker.take([{"index": 0, "function": {"name": OWN, "arguments": piece}}]) for piece in text]


def stream_names(text: str) -> object:
    tracker = CallTracker(frozenset({OWN}))
    return [tracker.take([{"index": 0, "function": {"name": piece}}]) for piece in text]


def make_calls(text: str) -> object:
    size = 1 + len(text) // MAX_TURN_CALLS
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    calls = [{"function": {"name": OWN, "arguments": piece}} for piece in pieces]
    tracker = CallTracker(frozenset({OWN}))
    tracker.take([{**call, "id": f"c{number}"} for number, call in enumerate(calls)])
    loop = ReplyLoop(LoopPlan(CHAT, {}, [], (), frozenset({OWN})))
    loop.build_request()
    message = {"role": "assistant", "content": text, "tool_calls": calls}
    loop.take(orjson.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}))
    return loop.resume([ToolResult("") for _ in range(min(32, len(calls)))])


def hash_history(text: str) -> object:
    """The text as every part of a history."""
    call = {"id": text, "function": {"name": text, "arguments": text}}
    messages = [
        {"role": "system", "content": text},
        {
            "role": "user",
            "content": [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": text}}],
        },
        {"role": "assistant", "content": text, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": text, "content": text},
        *({"role": "assistant", "content": piece} for piece in text.split(" ")),
    ]
    return find_keys(CHAT, text.encode(), [Raw(orjson.dumps(message)) for message in messages])


def cut_events(text: str, buffer: Any = None) -> object:
    events = buffer or sse.EventBuffer()
    data = text.encode()
    return [events.take(data[at : at + 2]) for at in range(0, len(data), 2)]


def split_crlf(text: str) -> object:
    return sse.split_events(text.replace("\n", "\r\n\r\n").encode() + b"\r\n")


def run_tool(text: str) -> object:
    select_passages(text, text, 8000)
    rank_by_words([resource(number, text=text[:100]) for number in range(20)], text)
    return decode_arguments(text, ToolArguments)


def index_text(text: str) -> object:
    return LexicalIndex.build([extract_terms(piece) for piece in split_text(text)])


def search_text(text: str) -> object:
    found = {"c/r": resource(text=text, description=text)}
    return search("a", replace(EMPTY_SNAPSHOT, resources=found))


def chain_nodes(text: str) -> object:
    """A node below another, as many as there are characters."""
    place = EntryLocation(YamlDocument("f", None, {}), ())
    nodes = {
        f"n{number}": PolicyEntry(f"n{number}", place, {"key": f"n{number}", "parent": f"n{number + 1}"})
        for number in range(len(text))
    }
    return add_stored_nodes(ContentTree(), nodes)


def merge_voices(text: str) -> object:
    """One long voice and many short ones in conflict."""
    registry = load_registry()
    data = [BrandVoiceData(tone="x", audience=f"t{text}", style="y", avoid="z")]
    data += [BrandVoiceData(tone=f"tone {number}") for number in range(len(text) // 8)]
    voices = [resource(number, type="brand-voice", conflict_key="voice", data=one) for number, one in enumerate(data)]
    return settle_conflicts([Candidate(one, Level.AGENT, "", "", "") for one in voices], build_merge(registry))


def send_form(text: str) -> object:
    return read_model(b"multipart/form-data; boundary=B", b"--B" + text.replace("a", "\r\n--B").encode() + b"\r\n\r\n")


def cut_text(text: str) -> object:
    cuts = [truncate(text, 100, lambda part: len(part) // 4, how) for how in ("extractive", "keep_start", "keep_end")]
    return [*cuts, truncate(text, 100, lambda part: len(part) // 4, "extractive", text)]


def extract_plain_text(text: str) -> object:
    return extract_content(text.encode(), DocumentFormat.TEXT, DocumentSettings())


def compare_versions(text: str) -> object:
    names = [f"r{number}" for number in range(len(text))]
    return list_differences({"resources": dict.fromkeys(names)}, {"resources": dict.fromkeys(reversed(names))})


def surfaces(tmp_path: Path) -> dict[str, Surface]:
    counter = BpeCounter()
    known = [f"resource-{number}" for number in range(300)]
    data = {name: in_policy(build, tmp_path) for name, build in POLICY_FIELDS.items()}
    return {
        "question": Surface(lambda text: split_question(Question(text, (text, text))), 8),
        "message": Surface(read_message, 8),
        "context object": Surface(read_context_object, 8),
        "context headers": Surface(read_context_headers, 8),
        "content path": Surface(find_unknown_node, 8),
        "unknown alias": Surface(lambda text: UnknownAlias("agent", text, known, param="agent"), 8),
        "many known": Surface(lambda text: UnknownAlias("agent", "resource", text.split(" "), param="agent"), 8),
        "model pattern": Surface(lambda text: [matches_pattern(one, text) for one in ("a*a*-*b", "*", "x*", text)], 8),
        "item": Surface(lambda text: build_volatile_block(Selection(items=(RequestItem(text, text),)), "t"), 8),
        "name": Surface(flatten, 8),
        "template": Surface(lambda text: fill_parts(parse_template(text.replace("a", "{input}")), {"input": text[:9]})),
        "escaped text": Surface(escape_json, 8),
        "tokens": Surface(lambda text: counter.count(text, "gpt-4o"), 4),
        "truncated": Surface(cut_text, 8),
        "passages": Surface(index_text, 2),
        "interpolation": Surface(lambda text: interpolate(text.replace("a", "${A:-"), {}), 8),
        "yaml": Surface(lambda text: parse_yaml(text, "f"), 2),
        "yaml in flow": Surface(lambda text: parse_yaml(f"a: [{text}", "f"), 2),
        **{name: Surface(work, 4) for name, work in data.items()},
        **{name: Surface(data[name], 1, FEW) for name in COUNTED},
        "html": Surface(html_to_text, 4),
        "html bytes": Surface(lambda text: decode_html(f"<meta {text}".encode(), None), 8),
        "text document": Surface(extract_plain_text, 8),
        "link": Surface(lambda text: parse_url(f"http://{text}"), 8),
        "stored nodes": Surface(chain_nodes, 0.5, FEW[:1]),
        "conflicts": Surface(merge_voices, 2, FEW[:1]),
        "stream of texts": Surface(stream_text, 0.5, FEW),
        "stream of small pieces": Surface(lambda text: stream([text.encode()], 1), 8, FEW),
        "events in small pieces": Surface(cut_events, 32, FEW),
        "events with CRLF": Surface(split_crlf, 8),
        "tool arguments": Surface(stream_arguments, 4, (*FEW, "braces", "closing", "backslashes", "digits")),
        "tool names": Surface(stream_names, 4, FEW),
        "tool calls": Surface(make_calls, 0.5, FEW),
        "history": Surface(hash_history, 4),
        "tool run": Surface(run_tool, 4),
        "demo model": Surface(lambda text: read_blocks("--- Context [00000000] ---\n" + text), 4),
        "management body": Surface(lambda text: decode_json(text.encode()), 8),
        "management object": Surface(lambda text: decode_json(orjson.dumps({text: [text, text.split(" ")]})), 8),
        "differences": Surface(compare_versions, 1, FEW[:1]),
        "search": Surface(search_text, 4),
        "exported": Surface(lambda text: format_yaml({"a": text, "b": text.split(" ")}), 4),
        "log line": Surface(lambda text: Redactor(["known-secret"]).redact(text.replace("a", "api_key: Bearer ")), 2),
        "context lists": Surface(read_context_lists, 2),
        "request head": Surface(read_request_head, 4),
        "changed session": Surface(change_session, 2),
        "session body": Surface(manage_session, 4),
        "receipt filters": Surface(filter_receipts, 2),
        "receipt texts": Surface(keep_texts, 2),
        "upstream chunks": Surface(reply_in_chunks, 4),
        "path": Surface(lambda text: normalize_path(f"/{text}".encode()), 8),
        "form": Surface(send_form, 4),
        **{name: Surface(work, factor) for name, (work, factor) in list_surfaces(tmp_path).items()},
        **{name: Surface(work, factor) for name, (work, factor) in list_service_surfaces().items()},
    }  # fmt: skip


COUNTED = ("unknown fields", "unknown contexts", "policy names", "glossary", "brand voice")
POLICY_FIELDS = {
    "policy text": in_resource("text", lambda text: {"content": f"x{text}"}, name="n", description="d"),
    "policy names": lambda text: {"contexts": {"c": {"name": text, "resources": {f"r{n}": {} for n in range(9)}}}},
    "inline html": in_resource("document", lambda text: {"content": f"x{text}", "mime_type": "text/html"}),
    "inline markdown": in_resource("document", lambda text: {"content": f"x{text}", "mime_type": "text/markdown"}),
    "external link": in_resource("external-link", lambda text: {"url": f"https://example.com/{text}"}),
    "glossary": in_resource("glossary", lambda text: {"terms": {f"t{n}": f"x{w}" for n, w in enumerate(text.split())}}),
    "brand voice": in_resource("brand-voice", lambda text: {"tone": [f"x{line}" for line in text.split("\n")]}),
    "unknown type": in_resource("text", lambda text: {text: 1}),
    "unknown fields": in_resource("text", lambda text: {f"k{number}": 1 for number in range(len(text) // 8)}),
    "unknown contexts": lambda text: {"agents": {"a": {"contexts": [f"c{n}" for n in range(len(text) // 8)]}}},
    "prompt": lambda text: {"prompts": {"p": {"template": f"x{text}"}}},
    "instructions": lambda text: {"agents": {"a": {"instructions": f"x{text}"}}},
    "node body": lambda text: {"content": {"n": {"body": f"x{text}"}}},
}  # fmt: skip


def call(work: Callable[[Any], object]) -> Callable[[Any], object]:
    """The work; that something is refused is fine, if it does not take long."""

    def run(text: Any) -> object:
        with contextlib.suppress(GatewayError, Faults, LinkError, ToolCallError, ReplyFault, ValueError):
            return work(text)
        return None

    return run


def repeat(unit: str) -> Callable[[int], str]:
    return lambda size: unit * (size // len(unit))


def measure_surface(surface: Surface) -> Iterator[tuple[str, Growth]]:
    for family in surface.families:
        yield family, measure_growth(call(surface.work), repeat(FAMILIES[family]), int(SIZE * surface.factor))


@pytest.mark.parametrize("name", surfaces(Path(tempfile.gettempdir()) / "growth"))
def test_time_grows_with_the_length_of_the_text_and_not_faster(name: str, tmp_path: Path) -> None:
    surface = surfaces(tmp_path)[name]
    surface.work("warm up") if name == "tokens" else None
    steep = {family: growth for family, growth in measure_surface(surface) if growth.is_steep}
    assert steep == {}


# What the guard is for: three functions that were slow once.

OLD_MARKER = re.compile(r"-{3,}(?=\s*(?:Context|End)\s*(?:\[|-{3}))", re.IGNORECASE)
ABBREVIATED = re.compile(r"\b[A-Za-z]\.$")


def join_again_and_again(text: str) -> list[str]:
    joined: list[str] = []
    for piece in text.split(" "):
        if joined and ABBREVIATED.search(joined[-1]):
            joined[-1] = f"{joined[-1]} {piece}"
        else:
            joined.append(piece)
    return joined


class CopyingBuffer:
    def __init__(self) -> None:
        self.held = b""

    def take(self, piece: bytes) -> bytes:
        self.held += piece
        end = sse.find_events_end(self.held)
        events, self.held = self.held[:end], self.held[end:]
        return events


@pytest.mark.parametrize(
    ("work", "unit", "size"),
    [
        (lambda text: OLD_MARKER.sub("", text), "-", SIZE // 4),
        (join_again_and_again, "a. ", SIZE // 2),
        (lambda text: cut_events(text, CopyingBuffer()), "a", 4 * SIZE),
    ],
    ids=["marker", "sentences", "buffer"],
)
def test_the_guard_finds_work_that_grows_faster(work: Callable[[str], object], unit: str, size: int) -> None:
    assert measure_growth(call(work), repeat(unit), size).is_steep
