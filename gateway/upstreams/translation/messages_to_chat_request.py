"""A request to Anthropic's Messages as a chat request."""

from typing import Any, Final

import msgspec
from msgspec import Raw

from gateway.errors import InvalidRequest, ThreadUnsupported
from gateway.upstreams.translation.carried_fields import UNREADABLE, CarriedFields, encode, is_string, put
from gateway.upstreams.translation.chat_completion import REASONING_FIELDS
from gateway.upstreams.translation.thoughts import REDACTED, THINKING, find_signed_field
from gateway.upstreams.translation.uncarried import MESSAGES_TO_CHAT

COPIED: Final = ("model", "temperature", "top_p")
ROLES: Final = ("user", "assistant", "system")
TIERS: Final = {"auto": "auto", "standard_only": "default"}
# Budgets of tokens for thinking as efforts: up to these, else the greatest.
BUDGETS: Final = ((2048, "low"), (8192, "medium"))
EFFORTS: Final = {"low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "xhigh"}
# What Claude Code asks for: all thoughts stay, as they do without a word.
UNEDITED: Final[tuple[Any, ...]] = ({"edits": []}, {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]})
SCHEMA_NAME: Final = "answer"  # which chat requires, and Anthropic has no word for
ERROR_PREFIX: Final = "Error: "

Part = dict[str, Any]


class ChatAbilities(msgspec.Struct, frozen=True):
    """What the chat upstream can take."""

    stream_usage: bool = True
    anthropic_fields: bool = False  # cache_control and signed thinking blocks: Anthropic behind a chat interface


def build_chat_request(body: bytes, can: ChatAbilities) -> bytes:
    """The body for `/chat/completions`; raises InvalidRequest for what it cannot carry."""
    try:
        return encode(MessagesReader(can).read(CarriedFields(body, "", MESSAGES_TO_CHAT)))
    except UNREADABLE as fault:
        raise InvalidRequest("The request cannot be read.") from fault


class MessagesReader:
    """Reads one request of the Messages dialect."""

    def __init__(self, can: ChatAbilities) -> None:
        self._can = can

    def read(self, asked: CarriedFields) -> dict[str, Any]:
        built: dict[str, Any] = {}
        if asked.take_raw("thread") is not None:
            reason = MESSAGES_TO_CHAT.refused["thread"]
            raise ThreadUnsupported(
                f"The upstream of this model has no threads ({reason}). Send all messages.", param="thread"
            )
        for name in COPIED:
            put(built, name, asked.take_raw(name))
        put(built, "max_completion_tokens", asked.take_raw("max_tokens"))
        messages = self._read_system(asked)
        for message in asked.take_objects("messages"):
            messages += self._read_message(message)
        built["messages"] = messages
        asked.require_neutral("stop_sequences", [])
        put(built, "stop", asked.take_raw("stop_sequences"))
        self._add_tools(built, asked)
        add_reasoning(built, asked)
        self._add_rest(built, asked)
        asked.require_neutral("mcp_servers", [])
        asked.require_neutral("context_management", *UNEDITED)
        asked.finish()
        return built

    def _add_rest(self, built: dict[str, Any], asked: CarriedFields) -> None:
        if asked.take("stream", bool):
            built["stream"] = True
            if self._can.stream_usage:
                built["stream_options"] = {"include_usage": True}
        if (metadata := asked.take_object("metadata")) is not None:
            put(built, "user", metadata.take_raw("user_id"))
            metadata.finish()
        tier = asked.take("service_tier", str)
        put(built, "service_tier", None if tier is None else TIERS.get(tier) or asked.refuse("service_tier"))
        self._keep_marker(built, asked)

    def _keep_marker(self, target: Part, source: CarriedFields) -> None:
        marker = source.take_raw("cache_control")
        if self._can.anthropic_fields:
            put(target, "cache_control", marker)

    def _read_system(self, asked: CarriedFields) -> list[Part]:
        system = asked.take_raw("system")
        if system is None:
            return []
        if is_string(system):
            return [{"role": "system", "content": system}]
        return self._build_texts("system", asked.read_objects("system", system))

    def _build_texts(self, role: str, blocks: list[CarriedFields]) -> list[Part]:
        parts = [self._read_text(block) for block in blocks]
        return [{"role": role, "content": simplify(parts)}] if parts else []

    def _read_text(self, block: CarriedFields) -> Part:
        if block.require("type", str) != "text":
            block.refuse("type")
        return self._finish_text(block)

    def _finish_text(self, block: CarriedFields) -> Part:
        part: Part = {"type": "text", "text": block.require_raw("text")}
        self._keep_marker(part, block)
        block.require_neutral("citations", [])
        block.finish()
        return part

    def _read_message(self, message: CarriedFields) -> list[Part]:
        role = message.require("role", str)
        if role not in ROLES:
            message.refuse("role")
        content = message.require_raw("content")
        message.finish()
        if is_string(content):
            return [{"role": role, "content": content}]
        blocks = message.read_objects("content", content)
        match role:
            case "user":
                return self._read_user(blocks)
            case "assistant":
                return self._read_assistant(blocks)
        return self._build_texts(role, blocks)

    def _read_user(self, blocks: list[CarriedFields]) -> list[Part]:
        """Results of tools are messages of their own in chat, and come first."""
        results: list[Part] = []
        parts: list[Part] = []
        for block in blocks:
            kind = block.require("type", str)
            if kind == "tool_result":
                results.append(self._read_result(block))
            else:
                parts.append(self._read_part(block, kind))
        return [*results, *([{"role": "user", "content": simplify(parts)}] if parts else [])]

    def _read_part(self, block: CarriedFields, kind: str) -> Part:
        match kind:
            case "text":
                return self._finish_text(block)
            case "image":
                part: Part = {"type": "image_url", "image_url": {"url": read_image_url(block)}}
            case "document":
                part = read_document(block)
            case _:
                block.refuse("type")
        self._keep_marker(part, block)
        block.require_neutral("citations", {"enabled": False})
        block.finish()
        return part

    def _read_result(self, block: CarriedFields) -> Part:
        message: Part = {"role": "tool", "tool_call_id": block.require_raw("tool_use_id")}
        content = block.take_raw("content")
        failed = block.take("is_error", bool)
        if content is None:
            message["content"] = ""
        elif is_string(content):
            message["content"] = content
        else:
            parts = [self._read_text(one) for one in block.read_objects("content", content)]
            message["content"] = simplify(parts) if parts else ""
        if failed:
            message["content"] = mark_failure(message["content"])
        self._keep_marker(message, block)
        block.finish()
        return message

    def _read_assistant(self, blocks: list[CarriedFields]) -> list[Part]:
        message: Part = {"role": "assistant", "content": None}
        texts: list[Part] = []
        calls: list[Part] = []
        for block in blocks:
            match block.require("type", str):
                case "text":
                    texts.append(self._finish_text(block))
                case "tool_use":
                    calls.append(self._read_call(block))
                case "thinking" | "redacted_thinking" as kind:
                    self._add_thought(message, block, kind)
                case _:
                    block.refuse("type")
        join_thoughts(message)
        if texts:
            message["content"] = simplify(texts)
        if calls:
            message["tool_calls"] = calls
        return [message] if len(message) > 2 or texts else []

    def _read_call(self, block: CarriedFields) -> Part:
        arguments = bytes(block.take_raw("input") or b"{}").decode()
        function = {"name": block.require_raw("name"), "arguments": arguments}
        call = {"id": block.require_raw("id"), "type": "function", "function": function}
        block.ignore("cache_control")
        block.require_neutral("caller", {"type": "direct"})
        block.finish()
        return call

    def _add_thought(self, message: Part, block: CarriedFields, kind: str) -> None:
        """Thoughts go back in the form in which the upstream told them; those of other models do not."""
        thought: Part = {"type": kind}
        for name in (THINKING, "signature") if kind == THINKING else ("data",):
            put(thought, name, block.take(name, str))
        block.finish()
        field = find_signed_field(thought.get("signature")) if kind != REDACTED else None
        if field is not None:
            message.setdefault(field, []).append(thought.get(THINKING, ""))
        elif self._can.anthropic_fields:
            message.setdefault("thinking_blocks", []).append(thought)

    def _add_tools(self, built: dict[str, Any], asked: CarriedFields) -> None:
        tools = [self._read_tool(tool) for tool in asked.take_objects("tools")]
        if tools:
            built["tools"] = tools
        choice = asked.take_object("tool_choice")
        if choice is None:
            return
        if choice.take("disable_parallel_tool_use", bool) and tools:
            built["parallel_tool_calls"] = False
        match choice.require("type", str):
            case "any":
                built["tool_choice"] = "required"
            case "tool":
                built["tool_choice"] = {"type": "function", "function": {"name": choice.require_raw("name")}}
            case "auto" | "none" as kind:
                put(built, "tool_choice", kind if tools else None)  # chat refuses it without tools
            case _:
                choice.refuse("type")
        choice.finish()

    def _read_tool(self, tool: CarriedFields) -> Part:
        tool.require_neutral("type", "custom")
        if "type" in tool:
            tool.refuse("type")
        function: Part = {"name": tool.require_raw("name")}
        put(function, "description", tool.take_raw("description"))
        put(function, "parameters", tool.take_raw("input_schema"))
        put(function, "strict", tool.take("strict", bool))
        built: Part = {"type": "function", "function": function}
        self._keep_marker(built, tool)
        tool.ignore("eager_input_streaming")
        tool.require_neutral("defer_loading", False)
        tool.require_neutral("input_examples", [])
        tool.require_neutral("allowed_callers", ["direct"])
        tool.finish()
        return built


def join_thoughts(message: Part) -> None:
    """Thoughts without signatures were collected piece by piece; each field is one text."""
    for field in REASONING_FIELDS:
        if field in message:
            message[field] = "".join(message[field])


def simplify(parts: list[Part]) -> Any:
    """A single plain text as a string, which every upstream takes."""
    return parts[0]["text"] if len(parts) == 1 and parts[0].keys() == {"type", "text"} else parts


def mark_failure(content: Any) -> Any:
    """The text of a result that says itself that the call failed: chat has no flag for it."""
    if isinstance(content, list):
        return [{"type": "text", "text": ERROR_PREFIX.strip()}, *content]
    inside = bytes(content)[1:-1] if isinstance(content, Raw) else content.encode()
    return Raw(b'"' + (b"" if inside.startswith(b"Error") else ERROR_PREFIX.encode()) + inside + b'"')


def read_image_url(block: CarriedFields) -> str:
    source = block.take_object("source")
    if source is None:
        block.refuse("source")
    match source.require("type", str):
        case "base64":
            url = f"data:{source.require('media_type', str)};base64,{source.require('data', str)}"
        case "url":
            url = source.require("url", str)
        case _:
            source.refuse("type")
    source.finish()
    return url


def read_document(block: CarriedFields) -> Part:
    """A PDF, or plain text."""
    source = block.take_object("source")
    if source is None:
        block.refuse("source")
    match source.require("type", str):
        case "base64":
            data = f"data:{source.require('media_type', str)};base64,{source.require('data', str)}"
            file: Part = {"filename": block.take("title", str) or "document.pdf", "file_data": data}
            part: Part = {"type": "file", "file": file}
        case "text":
            title = block.take("title", str)
            text = source.require("data", str)
            part = {"type": "text", "text": f"{title}\n\n{text}" if title else text}
            source.ignore("media_type")
        case _:
            source.refuse("type")
    source.finish()
    return part


def add_reasoning(built: dict[str, Any], asked: CarriedFields) -> None:
    """How much to think, and the shape of the answer."""
    thinking, config = asked.take_object("thinking"), asked.take_object("output_config")
    if thinking is not None:
        kind, budget = thinking.require("type", str), thinking.take("budget_tokens", int)
        if kind == "enabled" and budget is not None:
            built["reasoning_effort"] = next((effort for most, effort in BUDGETS if budget <= most), "high")
        elif kind not in ("adaptive", "disabled"):
            thinking.refuse("type")
        thinking.ignore("display")
        thinking.finish()
    wanted = None
    if config is not None:
        effort, wanted = config.take("effort", str), config.take_object("format")
        put(built, "reasoning_effort", None if effort is None else EFFORTS.get(effort) or config.refuse("effort"))
        config.finish()
    # Its name while it was a beta, which clients still send.
    if (wanted := wanted or asked.take_object("output_format")) is not None:
        built["response_format"] = read_format(wanted)


def read_format(wanted: CarriedFields) -> Part:
    if wanted.require("type", str) != "json_schema":
        wanted.refuse("type")
    schema = {"name": SCHEMA_NAME, "schema": wanted.require_raw("schema"), "strict": True}
    wanted.finish()
    return {"type": "json_schema", "json_schema": schema}
