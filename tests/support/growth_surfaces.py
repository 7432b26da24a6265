"""Text-taking surfaces of content, knowledge, recipes, dialects, MCP, sign-ins and replays, for the guard of growth."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import orjson
from msgspec import Raw

from gateway import sse
from gateway.collectors.nodes import excerpt, render_content
from gateway.control.bundle_reader import read_bundle
from gateway.control.knowledge_import import read_lines
from gateway.control.sources.markdown import MarkdownFolder
from gateway.control.sources.rows import CsvFile, JsonLines
from gateway.control.sources.source_node import ContentSource
from gateway.conversation.dialect import Dialect
from gateway.conversation.dialects.messages.dialect import MESSAGES
from gateway.conversation.dialects.responses.continuation import resume, screen
from gateway.conversation.dialects.responses.dialect import RESPONSES
from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.history_hash import find_keys
from gateway.conversation.response_record import ResponseRecord, decode_record
from gateway.conversation.stored_responses import StoredResponses
from gateway.domain.chat import ChatRequest
from gateway.domain.content import NodeContent, NodeLink
from gateway.domain.content_names import ContentNames
from gateway.domain.intents import find_meant_types
from gateway.domain.knowledge import Entity, KnowledgeSet, Relationship
from gateway.domain.node import Node
from gateway.edge.manage.content_views import NodeBody, NodeMove
from gateway.edge.manage.knowledge import MODELS
from gateway.edge.manage.routes import parse_json
from gateway.edge.mcp.documents import cut_list
from gateway.edge.mcp.endpoint import check_message
from gateway.edge.mcp.uris import make_uri, parse_uri
from gateway.edge.paths import find_target
from gateway.edge.sign_ins import SignIn, check_page, is_sign_in_path, read_token
from gateway.edge.stored_responses import build_page
from gateway.errors import Faults, GatewayError
from gateway.knowledge.config import KnowledgeConfig
from gateway.knowledge.graph import build_graph
from gateway.knowledge.retrieval import KnowledgeQuery, retrieve
from gateway.policies.recipe_shapes import RecipeShape, make_recipe
from gateway.replay.text_diff import diff_messages
from gateway.scopes.context_request import read_context_request
from gateway.semantic.index.node_index import NodeIndex
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.strict_yaml import parse_yaml
from gateway.upstreams.translation.chat_to_messages_reply import build_message_reply
from gateway.upstreams.translation.chat_to_messages_request import build_messages_request
from gateway.upstreams.translation.chat_to_messages_stream import ChatToMessagesStream
from gateway.upstreams.translation.chat_to_responses import ChatToResponsesStream, ResponseHead, build_response
from gateway.upstreams.translation.messages_to_chat_reply import build_completion
from gateway.upstreams.translation.messages_to_chat_request import ChatAbilities, build_chat_request
from gateway.upstreams.translation.messages_to_chat_stream import MessagesToChatStream
from gateway.upstreams.translation.responses_to_chat_request import build_chat_request_of_responses

Work = Callable[[str], object]

CAN = ChatAbilities(True, True)
OWNER = ConversationOwner("w", "k")
NAMES = ("letters", "newlines", "spaces")  # where the number of pieces counts more than what they are


def cut(text: str, size: int = 8) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def attempt(*works: Callable[[], object]) -> list[object]:
    """Every one of them, although some of the text is refused."""
    done: list[object] = []
    for work in works:
        try:
            done.append(work())
        except (GatewayError, Faults, ValueError, KeyError, RecursionError, msgspec.MsgspecError) as fault:
            done.append(type(fault))
    return done


def save_node(text: str) -> object:
    body = {"key": "k", "title": text, "body": text, "type": text, "properties": {text: text, "words": text.split(" ")}}
    links: list[Any] = [*cut(text), {"to": text, "type": text}]
    return attempt(
        lambda: parse_json(NodeBody, orjson.dumps(body | {"links": links[:1000], "readers": cut(text)})),
        lambda: parse_json(NodeBody, orjson.dumps({"properties": dict.fromkeys(cut(text), text[:9]), "id": text})),
        lambda: parse_json(NodeMove, orjson.dumps({"key": text, "parent": text, text: 1})),
    )


def show_node(text: str) -> object:
    properties: dict[str, Any] = {"a": text, "b": text.split(" "), "c": {"d": text}}
    shown = render_content(NodeContent(text, properties, tuple(NodeLink(one, one) for one in cut(text))))
    return shown, excerpt(shown, 400, frozenset({"a", "1"})), excerpt(text, 50, frozenset(text[:400].split()))


def index_nodes(text: str) -> object:
    """The text as one node, and a node for each of its pieces; then as a question."""
    index = NodeIndex()
    nodes = [Node(f"n{place}", f"n{place}", None, "page", piece) for place, piece in enumerate([text, *cut(text, 64)])]
    index.add(nodes, {node.id: NodeContent(node.title, {"p": node.title}) for node in nodes})
    names = ContentNames({node.path: node for node in nodes})
    names.build()
    return names.find(text, frozenset()), find_meant_types(text)


def import_nodes(folder: Path) -> Work:
    """The text as files of every kind, and as each of their fields."""

    def work(text: str) -> object:
        files = {"a.md": f"---\ntitle: {text}\n---\n{text}", "b.md": text, "c.md": f"[a]({text}) ![]({text}"}
        rows = [orjson.dumps({"id": piece, "body": piece}).decode() for piece in cut(text)]
        files |= {"a.jsonl": "\n".join([*rows, orjson.dumps({"id": text, "title": text, "body": text}).decode(), text])}
        files |= {"a.csv": f"a,b\n{text}", "b.csv": text, "c.csv": f'a,b\n"{text}",1\n'}
        for name, content in files.items():
            (folder / name).write_text(content, newline="")
        sources: list[ContentSource] = [MarkdownFolder(folder), JsonLines(folder / "a.jsonl")]
        sources += [CsvFile(folder / f"{name}.csv") for name in "abc"]
        return [list(source.read()) for source in sources]

    return work


def import_knowledge(folder: Path) -> Work:
    def work(text: str) -> object:
        entity = {"id": "e", "type": "t", "name": text[:200], "properties": {"p": text, text: 1}}
        lines = [text, orjson.dumps({"kind": "entity", **entity}).decode(), *cut(text)]
        (folder / "k.jsonl").write_text("\n".join(lines))
        bodies = (
            entity,
            entity | {"aliases": cut(text), "readers": cut(text)},
            {"from": text, "type": text, "to": text, "properties": {text: text}},
            {"id": "a", "types": cut(text), "text": text, text: 1},
        )
        works = [
            (lambda body=body, models=models: parse_json(models.new, orjson.dumps(body)))
            for body in bodies
            for models in MODELS.values()
        ]
        return attempt(lambda: read_lines(folder / "k.jsonl"), *works)

    return work


def ask_knowledge(text: str) -> object:
    """As many entities as pieces, each related to the next; all of the text is the question."""
    pieces = cut(text, 16)
    entities = {f"e{place}": Entity(f"e{place}", "t", piece, (piece,)) for place, piece in enumerate(pieces)}
    ties = {f"r{place}": Relationship(f"r{place}", f"e{place}", "t", "e0") for place in range(len(pieces))}
    graph = build_graph(KnowledgeSet(entities, ties), KnowledgeSet())
    found = retrieve(graph, KnowledgeQuery(tuple(cut(text, 200)[:40]), frozenset()), KnowledgeConfig(min_score=0.0))
    return None if found.fragment is None else found.fragment.render(0)


def write_recipe(text: str) -> object:
    pieces = cut(text)
    bodies: tuple[dict[str, Any], ...] = (
        {"name": text, "description": text, "root": text, "types": pieces, "needs": pieces, "collectors": pieces},
        {"layers": [{"take": "children", "types": pieces, "where": {text: pieces}, "show": pieces}]},
        {"world": {"types": pieces, "where": {piece: {piece: [piece]} for piece in pieces[:50]}, "show": pieces}},
    )
    return attempt(*(lambda body=body: make_recipe("r", "r", RecipeShape.model_validate(body)) for body in bodies))


def ask_with_inputs(text: str) -> object:
    pieces = cut(text)
    bodies: tuple[dict[str, Any], ...] = (
        {"refs": {text: text, "list": pieces}},
        {"vars": {piece: piece for piece in pieces}},
        {"hints": {"include": pieces, "exclude": pieces, "prioritize_types": pieces[:50]}},
        {"hints": {"time_range": {"start": text, "end": text}}},
        {"items": [{"name": text, "text": text}, *({"name": piece, "text": piece} for piece in pieces[:900])]},
        {"selection": {text: text}, "task": text, "type": text},
    )
    return attempt(*(lambda body=body: read_context_request((), Raw(orjson.dumps(body))) for body in bodies))


def read_conversation(dialect: Dialect, body: dict[str, Any]) -> object:
    def work() -> object:
        request = dialect.decode(orjson.dumps(body))
        return (
            dialect.find_question(request.messages),
            dialect.read_user_texts(request.messages),
            dialect.replace_user_text(request.messages, "x"),
            dialect.read_client_tools(request),
            find_keys(dialect, b"o", request.messages),
        )

    return attempt(work)


def list_items(text: str) -> list[dict[str, Any]]:
    parts = [{"type": "input_text", "text": piece} for piece in cut(text)]
    call = {"type": "function_call", "call_id": text, "name": text, "arguments": text}
    return [
        {"role": "user", "content": text},
        {"role": "user", "content": parts},
        *({"role": "assistant", "content": piece} for piece in cut(text, 32)),
        call,
        {"type": "function_call_output", "call_id": text, "output": text},
        {"type": "reasoning", "summary": [], "encrypted_content": text},
    ]


def list_blocks(text: str) -> list[dict[str, Any]]:
    parts = [{"type": "text", "text": piece} for piece in cut(text)]
    return [
        {"role": "user", "content": text},
        *({"role": "assistant", "content": piece} for piece in cut(text, 32)),
        {"role": "user", "content": parts},
        {"role": "assistant", "content": [{"type": "tool_use", "id": text, "name": text, "input": {text: text}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": text, "content": text}]},
    ]


def make_tools(text: str) -> list[dict[str, Any]]:
    return [{"type": "function", "name": piece, "description": text[:50], "parameters": {}} for piece in cut(text, 32)]


def take_responses(text: str) -> object:
    body = {"model": text, "input": list_items(text), "instructions": text, "tools": make_tools(text)}
    return read_conversation(RESPONSES, body), attempt(
        lambda: build_chat_request_of_responses(orjson.dumps(body), CAN),
        lambda: build_chat_request_of_responses(orjson.dumps({"model": "m", "input": text, text: text}), CAN),
    )


def take_messages(text: str) -> object:
    tools = [{"name": one["name"], "input_schema": {"type": "object"}} for one in make_tools(text)]
    body = {"model": text, "messages": list_blocks(text), "system": text, "tools": tools, "max_tokens": 9}
    chat: list[dict[str, Any]] = [{"role": "user", "content": text}]
    chat += [*({"role": "assistant", "content": piece} for piece in cut(text, 32))]
    calls = [{"id": text, "type": "function", "function": {"name": text, "arguments": text}}]
    chat += [{"role": "assistant", "tool_calls": calls}, {"role": "tool", "tool_call_id": text, "content": text}]
    return read_conversation(MESSAGES, body), attempt(
        lambda: build_chat_request(orjson.dumps(body), CAN),
        lambda: build_messages_request(orjson.dumps({"model": text, "messages": chat}), 100),
    )


def translate_replies(text: str) -> object:
    calls = [{"id": piece, "function": {"name": piece, "arguments": piece}} for piece in cut(text)]
    message = {"role": "assistant", "content": text, "reasoning_content": text, "tool_calls": calls}
    chat = orjson.dumps({"id": text, "model": text, "choices": [{"index": 0, "message": message}]})
    blocks = [*({"type": "text", "text": piece} for piece in cut(text)), {"type": "thinking", "thinking": text}]
    claude = orjson.dumps({"id": text, "type": "message", "role": "assistant", "model": "m", "content": blocks})
    return attempt(
        lambda: build_message_reply(chat),
        lambda: build_response(chat, ResponseHead(b"{}", "1", 1)),
        lambda: build_completion(claude, 1),
    )


def translate_streams(text: str) -> object:
    """The text in deltas of one character, as speech, thoughts and arguments, in packets that cut them anywhere."""
    deltas: list[dict[str, Any]] = []
    for piece in text:
        call = {"index": 0, "id": "c", "function": {"name": "f" if not deltas else "", "arguments": piece}}
        deltas += [{"content": piece, "reasoning_content": piece}, {"tool_calls": [call]}]
    chat = [orjson.dumps({"id": "1", "choices": [{"index": 0, "delta": one}]}) for one in deltas]
    start: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "model": "m", "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ]
    claude = [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": one}} for one in text]
    messages = [orjson.dumps(one) for one in start + claude]
    streams = (
        (ChatToMessagesStream(), chat),
        (ChatToResponsesStream(ResponseHead(b"{}", "1", 1)), chat),
        (MessagesToChatStream(1, wants_usage=True), messages),
    )
    return [attempt(lambda one=one: feed(*one)) for one in streams]  # type: ignore[misc]


def feed(stream: Any, events: Sequence[bytes]) -> object:
    whole = b"".join(map(sse.encode_event, events))
    return [stream.feed(whole[at : at + 97]) for at in range(0, len(whole), 97)], stream.end()


def continue_response(text: str) -> object:
    """A response that is kept with as many items as pieces, read page by page, and continued."""
    items = tuple(Raw(orjson.dumps(one)) for one in list_items(text))
    told = tuple((place, (piece,)) for place, piece in enumerate(cut(text, 32)))[: len(items)]
    record = ResponseRecord("m", "", (), Raw(b"{}"), items, items, (), told)
    request = RESPONSES.decode(orjson.dumps({"model": "m", "input": text, "previous_response_id": "r"}))

    async def go_on() -> ChatRequest:
        stored = StoredResponses(MemoryEphemeralStore())
        await stored.keep(OWNER, "r", record)
        await stored.find(OWNER, text)
        return screen(await resume(stored, OWNER, request, []), frozenset())

    pages = (build_page(items, {"after": text, "limit": text, "order": text}), build_page(items, {"limit": "100"}))
    return pages, decode_record(text.encode()), attempt(lambda: asyncio.run(go_on()))


def send_to_mcp(text: str) -> object:
    body = {"jsonrpc": "2.0", "id": text, "method": text, "params": {"name": text, "arguments": {text: cut(text)}}}
    pieces = cut(text)
    return attempt(
        lambda: check_message(orjson.dumps(body)),
        lambda: check_message(text.encode()),
        lambda: parse_uri("context://" + text),
        lambda: parse_uri(make_uri(text) + "?query=" + text),
        lambda: cut_list(pieces, text, lambda one: one),
    )


def sign_in(text: str) -> object:
    value = text.encode()
    headers = [(b"cookie", value), (b"cookie", value.replace(b"a", b"; context-sign-in=")), (b"x-csrf-token", value)]
    return attempt(
        lambda: read_token(headers),
        lambda: check_page([*headers, (b"origin", value)], "POST", SignIn(text, 1.0), lambda origin: True),
        lambda: is_sign_in_path(text),
        lambda: find_target(b"/openai/deployments/" + value + b"/chat/completions?" + value, {"/v1/chat/completions"}),
    )


def compare_requests(text: str) -> object:
    """Many lines that are alike, changed in the middle, and nothing in common."""
    half = len(text) // 2
    texts = (text, text[:half] + "x\n" + text[half:], text.replace("a", "b"), "\n".join(cut(text, 4)))
    return [diff_messages([{"role": "user", "content": text}], [{"role": "user", "content": one}]) for one in texts]


def read_whole_bundle(text: str) -> object:
    pieces = cut(text)
    nested: dict[str, Any] = {"title": text, "body": text}
    for number in range(min(60, len(pieces))):
        nested = {"children": {f"n{number}": nested}}
    wide = {f"n{number}": {"body": piece, "links": [piece]} for number, piece in enumerate(pieces)}
    bodies: tuple[Any, ...] = ({"content": {"a": nested}}, {"content": wide}, {text: 1}, {"agents": {text: text}})
    return attempt(
        *(lambda body=body: read_bundle(parse_yaml(orjson.dumps(body).decode(), "f"), {}) for body in bodies)
    )


def list_surfaces(folder: Path) -> dict[str, tuple[Work, float]]:
    """Each with how much longer its inputs are than usual."""
    imported, known = folder / "nodes", folder / "knowledge"
    for one in (imported, known):
        one.mkdir(parents=True, exist_ok=True)
    return {
        "node object": (save_node, 4),
        "node text": (show_node, 8),
        "node search": (index_nodes, 4),
        "import-content": (import_nodes(imported), 2),
        "knowledge object": (import_knowledge(known), 2),
        "knowledge question": (ask_knowledge, 4),
        "recipe": (write_recipe, 4),
        "refs, vars, hints, items": (ask_with_inputs, 4),
        "/v1/responses": (take_responses, 4),
        "/v1/messages": (take_messages, 4),
        "translated replies": (translate_replies, 4),
        "translated streams": (translate_streams, 0.5),
        "stored response": (continue_response, 2),
        "mcp message": (send_to_mcp, 4),
        "sign-in": (sign_in, 8),
        "diff of requests": (compare_requests, 1),
        "bundle": (read_whole_bundle, 1),
    }
