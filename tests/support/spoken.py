"""The dialects as tests speak them: one conversation, written and read in each."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import orjson

from tests.support.dialect_streams import merge_message_events


class Entry(NamedTuple):
    """One entry of a conversation, whatever the dialect."""

    kind: str  # user, assistant, reasoning, call, result
    text: str  # of a call its arguments
    id: str = ""
    name: str = ""


@dataclass
class Understood:
    """What a client understands of a reply."""

    entries: list[Entry] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    complete: bool = False  # it came to its end, as the dialect tells it
    errors: list[dict[str, Any]] = field(default_factory=list)
    id: str = ""

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self.entries if one.kind == "assistant"]

    @property
    def calls(self) -> list[tuple[str, str, Any]]:
        return [(one.id, one.name, orjson.loads(one.text)) for one in self.entries if one.kind == "call"]


class Spoken(Protocol):
    """One dialect."""

    name: str
    path: str  # below the base URL
    model: str  # whose upstream it is

    def write(self, entries: Iterable[Entry], **options: Any) -> dict[str, Any]:
        """The body of a request; `tools` are names of functions, `named` is the one that must be called."""
        ...

    def read_request(self, body: dict[str, Any]) -> list[Entry]:
        """What a request says, without instructions."""
        ...

    def read_instructions(self, body: dict[str, Any]) -> str:
        """What a request instructs."""
        ...

    def read_tools(self, body: dict[str, Any]) -> list[str]:
        """The names of a request's tools."""
        ...

    def read_whole(self, raw: bytes) -> Understood:
        """A whole reply."""
        ...

    def read_stream(self, raw: bytes) -> Understood:
        """A stream, checked for gaps and repetitions."""
        ...


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
ANY = {"type": "object"}
MESSAGES_MODEL = "m-messages"  # the model of an upstream that speaks Messages
CHAT_MODEL = "m-chat"  # the model of an upstream that speaks chat completions only
SIGNATURE = "c2lnbmVk"  # of all thoughts of models that sign them


class SpokenChat:
    name, path, model = "chat", "/chat/completions", "m-large"

    def write(self, entries: Iterable[Entry], **options: Any) -> dict[str, Any]:
        messages: list[dict[str, Any]] = []
        for one in entries:
            match one.kind:
                case "call":
                    call = {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.text}}
                    if messages[-1]["role"] != "assistant":
                        messages.append({"role": "assistant", "content": None})
                    messages[-1].setdefault("tool_calls", []).append(call)
                case "result":
                    messages.append({"role": "tool", "tool_call_id": one.id, "content": one.text})
                case "assistant" | "user":
                    messages.append({"role": one.kind, "content": one.text})
        body: dict[str, Any] = {"model": self.model, "messages": messages}
        if tools := options.pop("tools", None):
            body["tools"] = [
                {"type": "function", "function": {"name": name, "description": "theirs", "parameters": SCHEMA}}
                for name in tools
            ]
        if options.pop("json", None):
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": ANY}}
        if named := options.pop("named", None):
            body["tool_choice"] = {"type": "function", "function": {"name": named}}
        if options.get("stream"):
            body["stream_options"] = {"include_usage": True}
        return body | options

    def read_request(self, body: dict[str, Any]) -> list[Entry]:
        return [entry for one in body["messages"] for entry in self._read_message(one)]

    def _read_message(self, message: dict[str, Any]) -> Iterable[Entry]:
        role, content = message["role"], message.get("content")
        if role == "tool":
            yield Entry("result", str(content), message["tool_call_id"])
        elif role in ("user", "assistant"):
            if message.get("reasoning_content"):
                yield Entry("reasoning", message["reasoning_content"])
            if content:
                yield Entry(role, content)
            for call in message.get("tool_calls") or ():
                function = call["function"]
                yield Entry("call", function["arguments"], call["id"], function["name"])

    def read_instructions(self, body: dict[str, Any]) -> str:
        return "\n\n".join(one["content"] for one in body["messages"] if one["role"] in ("system", "developer"))

    def read_tools(self, body: dict[str, Any]) -> list[str]:
        return [tool["function"]["name"] for tool in body.get("tools") or ()]

    def read_whole(self, raw: bytes) -> Understood:
        body = orjson.loads(raw)
        if "error" in body:
            return Understood(errors=[body["error"]])
        (choice,) = body["choices"]
        entries = list(self._read_message(choice["message"]))
        return Understood(entries, body.get("usage"), bool(choice["finish_reason"]), id=body["id"])

    def read_stream(self, raw: bytes) -> Understood:
        from tests.support.gateway import ClientReply

        reply = ClientReply(200, {"content-type": "text/event-stream"}, raw)
        known = Understood(list(self._read_message({"role": "assistant", **reply.message})), errors=reply.errors)
        known.usage, known.complete = reply.usage, reply.done
        assert len(reply.finish_reasons) <= 1
        assert len({event["id"] for event in reply.events if "id" in event}) <= 1
        return known


class SpokenResponses:
    name, path, model = "responses", "/responses", "m-large"

    def write(self, entries: Iterable[Entry], **options: Any) -> dict[str, Any]:
        items: list[dict[str, Any]] = []
        for one in entries:
            match one.kind:
                case "call":
                    call = {"type": "function_call", "call_id": one.id, "name": one.name, "arguments": one.text}
                    items.append(call)
                case "result":
                    items.append({"type": "function_call_output", "call_id": one.id, "output": one.text})
                case "assistant":
                    part = {"type": "output_text", "text": one.text, "annotations": []}
                    items.append({"type": "message", "role": "assistant", "content": [part]})
                case "user":
                    items.append({"role": "user", "content": one.text})
        body: dict[str, Any] = {"model": self.model, "input": items}
        if tools := options.pop("tools", None):
            body["tools"] = [
                {"type": "function", "name": name, "description": "theirs", "parameters": SCHEMA} for name in tools
            ]
        if options.pop("json", None):
            body["text"] = {"format": {"type": "json_schema", "name": "answer", "schema": ANY}}
        if named := options.pop("named", None):
            body["tool_choice"] = {"type": "function", "name": named}
        return body | options

    def read_request(self, body: dict[str, Any]) -> list[Entry]:
        return [entry for one in body["input"] for entry in self._read_item(one)]

    def _read_item(self, item: dict[str, Any]) -> Iterable[Entry]:
        match item.get("type", "message"):
            case "message" if item["role"] in ("user", "assistant"):
                content = item["content"]
                texts = [content] if isinstance(content, str) else [part["text"] for part in content]
                yield Entry(item["role"], "".join(texts))
            case "reasoning":
                yield Entry("reasoning", (item.get("summary") or item["content"])[0]["text"])
            case "function_call":
                yield Entry("call", item["arguments"], item["call_id"], item["name"])
            case "function_call_output":
                yield Entry("result", item["output"], item["call_id"])

    def read_instructions(self, body: dict[str, Any]) -> str:
        items = [one for one in body["input"] if one.get("role") in ("system", "developer")]
        return "\n\n".join([body.get("instructions") or "", *(one["content"] for one in items)]).strip()

    def read_tools(self, body: dict[str, Any]) -> list[str]:
        return [tool["name"] for tool in body.get("tools") or () if "name" in tool]

    def read_whole(self, raw: bytes) -> Understood:
        body = orjson.loads(raw)
        if body.get("error"):
            return Understood(errors=[body["error"]])
        return self._read_response(body)

    def _read_response(self, body: dict[str, Any]) -> Understood:
        entries = [entry for item in body["output"] for entry in self._read_item(item)]
        return Understood(entries, body.get("usage"), body["status"] in ("completed", "incomplete"), id=body["id"])

    def read_stream(self, raw: bytes) -> Understood:
        events = [orjson.loads(data) for data in read_payloads(raw)]
        assert [event["sequence_number"] for event in events] == list(range(len(events))), "numbers without gaps"
        kinds = [event["type"] for event in events]
        if events:
            assert kinds[0] in ("response.created", "error")
        assert kinds.count("response.created") <= 1
        built, ids = self._build_items(events), {one["response"]["id"] for one in events if "response" in one}
        assert len(ids) <= 1, "one response"
        errors = [event for event in events if event["type"] == "error"]
        ends = [event for event in events if event["type"] in ("response.completed", "response.incomplete")]
        if not ends:
            return Understood(errors=errors)
        (end,) = ends
        assert events[-1] is end, "nothing follows the end"
        assert end["response"]["output"] == built, "the end repeats what was streamed"
        return self._read_response(end["response"])

    def _build_items(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The items as a client puts them together from events, checked on the way."""
        items: list[dict[str, Any]] = []
        texts: dict[int, str] = {}
        for event in events:
            match event["type"]:
                case "response.output_item.added":
                    assert event["output_index"] == len(items), "indexes without gaps"
                    items.append(event["item"])
                case "response.output_text.delta" | "response.function_call_arguments.delta":
                    assert items[event["output_index"]]["id"] == event["item_id"]
                    texts[event["output_index"]] = texts.get(event["output_index"], "") + event["delta"]
                case "response.output_item.done" if event["item"]["type"] == "reasoning":
                    items[event["output_index"]] = event["item"]
                case "response.output_item.done":
                    item = items[event["output_index"]] = event["item"]
                    told = item.get("arguments") or "".join(part["text"] for part in item.get("content") or ())
                    assert told == texts.get(event["output_index"], ""), "the deltas add up"
        return items


class SpokenMessages:
    name, path, model = "messages", "/messages", MESSAGES_MODEL
    signature = SIGNATURE

    def write(self, entries: Iterable[Entry], **options: Any) -> dict[str, Any]:
        messages: list[dict[str, Any]] = []
        for one in entries:
            role, block = self._write_block(one)
            if not messages or messages[-1]["role"] != role or one.kind == "user":
                messages.append({"role": role, "content": []})
            messages[-1]["content"].append(block)
        body: dict[str, Any] = {"model": self.model, "max_tokens": 100, "messages": messages}
        if tools := options.pop("tools", None):
            body["tools"] = [{"name": name, "description": "theirs", "input_schema": SCHEMA} for name in tools]
        if options.pop("json", None):
            body["output_config"] = {"format": {"type": "json_schema", "schema": ANY}}
        if named := options.pop("named", None):
            body["tool_choice"] = {"type": "tool", "name": named}
        if choice := options.pop("tool_choice", None):
            body["tool_choice"] = {"type": {"required": "any"}.get(choice, choice)}
        return body | options

    def _write_block(self, one: Entry) -> tuple[str, dict[str, Any]]:
        match one.kind:
            case "call":
                return "assistant", {
                    "type": "tool_use",
                    "id": one.id,
                    "name": one.name,
                    "input": orjson.loads(one.text),
                }
            case "result":
                return "user", {"type": "tool_result", "tool_use_id": one.id, "content": one.text}
            case "reasoning":
                return "assistant", {"type": "thinking", "thinking": one.text, "signature": self.signature}
        return one.kind, {"type": "text", "text": one.text}

    def read_request(self, body: dict[str, Any]) -> list[Entry]:
        return [entry for one in body["messages"] for entry in self._read_blocks(one["role"], one["content"])]

    def _read_blocks(self, role: str, content: str | list[dict[str, Any]]) -> Iterable[Entry]:
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            match block["type"]:
                case "text":
                    yield Entry(role, block["text"])
                case "thinking":
                    assert block["signature"] == self.signature
                    yield Entry("reasoning", block["thinking"])
                case "tool_use":
                    yield Entry("call", orjson.dumps(block["input"]).decode(), block["id"], block["name"])
                case "tool_result":
                    yield Entry("result", block["content"], block["tool_use_id"])

    def read_instructions(self, body: dict[str, Any]) -> str:
        system = body.get("system") or ""
        return system if isinstance(system, str) else "\n\n".join(block["text"] for block in system)

    def read_tools(self, body: dict[str, Any]) -> list[str]:
        return [tool["name"] for tool in body.get("tools") or ()]

    def read_whole(self, raw: bytes) -> Understood:
        body = orjson.loads(raw)
        if body["type"] == "error":
            return Understood(errors=[self._read_error(body)])
        return self._read_message(body)

    def _read_error(self, body: dict[str, Any]) -> dict[str, Any]:
        return {**body["error"], "code": body["error"].get("details", {}).get("error_code")}

    def _read_message(self, body: dict[str, Any]) -> Understood:
        usage = dict(body["usage"])
        usage["total_tokens"] = usage["input_tokens"] + usage["output_tokens"]
        entries = list(self._read_blocks("assistant", body["content"]))
        return Understood(entries, usage, bool(body["stop_reason"]), id=body["id"])

    def read_stream(self, raw: bytes) -> Understood:
        errors = [one for data in read_payloads(raw) if (one := orjson.loads(data))["type"] == "error"]
        message = merge_message_events(raw.replace(b"\r\n", b"\n"))
        if errors or not message.get("stopped"):
            return Understood(errors=[self._read_error(one) for one in errors])
        return self._read_message(message)


def read_payloads(raw: bytes) -> list[bytes]:
    """The data of every event that has some."""
    events = raw.replace(b"\r\n", b"\n").split(b"\n\n")
    lines = (line for event in events for line in event.split(b"\n"))
    return [line[5:].strip() for line in lines if line.startswith(b"data:")]


class SpokenMessagesOverChat(SpokenMessages):
    """Thoughts of a chat upstream say in their signature where they go back to."""

    signature = "chat:reasoning_content"


class SpokenOver:
    """A client's dialect, where the upstream speaks another one."""

    def __init__(self, client: Spoken, upstream: Spoken, model: str) -> None:
        self.name, self.path, self.model = client.name, client.path, model
        self.read_whole, self.read_stream = client.read_whole, client.read_stream
        self.read_request, self.read_instructions = upstream.read_request, upstream.read_instructions
        self.read_tools = upstream.read_tools
        self._client = client

    def write(self, entries: Iterable[Entry], **options: Any) -> dict[str, Any]:
        return self._client.write(entries, **options) | {"model": self.model}


CHAT, RESPONSES, MESSAGES = SpokenChat(), SpokenResponses(), SpokenMessages()
DIALECTS: dict[str, Spoken] = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}
OVER_CHAT = SpokenOver(RESPONSES, CHAT, CHAT_MODEL)
TRANSLATED: dict[str, Spoken] = {
    "chat over messages": SpokenOver(CHAT, MESSAGES, MESSAGES_MODEL),
    "responses over chat": OVER_CHAT,
    "responses over messages": SpokenOver(RESPONSES, MESSAGES, MESSAGES_MODEL),
    "messages over chat": SpokenOver(SpokenMessagesOverChat(), CHAT, CHAT_MODEL),
}
