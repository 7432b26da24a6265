"""A request to OpenAI's Responses as a chat request."""

from typing import Any, Final

import msgspec
from msgspec import Raw

from gateway.errors import InvalidRequest
from gateway.upstreams.translation.carried_fields import UNREADABLE, CarriedFields, encode, is_string, put
from gateway.upstreams.translation.messages_to_chat_request import ChatAbilities, join_thoughts, simplify
from gateway.upstreams.translation.thoughts import find_signed_field, unpack_thoughts
from gateway.upstreams.translation.uncarried import RESPONSES_TO_CHAT

COPIED: Final = (
    "model", "temperature", "top_p", "parallel_tool_calls", "user", "safety_identifier", "prompt_cache_key",
    "prompt_cache_retention", "service_tier", "top_logprobs",
)  # fmt: skip
LOGPROBS: Final = "message.output_text.logprobs"
INCLUDED: Final = frozenset({"reasoning.encrypted_content", LOGPROBS})
ROLES: Final = frozenset({"user", "assistant", "system", "developer"})
KEPT_HERE: Final = ("store", "metadata", "max_tool_calls", "stream_options")

Part = dict[str, Any]


def build_chat_request_of_responses(body: bytes, can: ChatAbilities) -> bytes:
    """The body for `/chat/completions`; raises InvalidRequest for what it cannot carry."""
    try:
        return encode(read_responses_request(CarriedFields(body, "", RESPONSES_TO_CHAT), can))
    except UNREADABLE as fault:
        raise InvalidRequest("The request cannot be read.") from fault


def read_responses_request(asked: CarriedFields, can: ChatAbilities) -> dict[str, Any]:
    built: dict[str, Any] = {}
    asked.require_neutral("top_logprobs", 0)
    for name in COPIED:
        put(built, name, asked.take_raw(name))
    put(built, "max_completion_tokens", asked.take_raw("max_output_tokens"))
    built["messages"] = ConversationReader(can).read(asked)
    add_tools(built, asked)
    add_format(built, asked)
    included = asked.take("include", list[str]) or []
    if any(name not in INCLUDED for name in included):
        asked.refuse("include")
    if LOGPROBS in included or "top_logprobs" in built:
        built["logprobs"] = True
    if asked.take("stream", bool):
        built["stream"] = True
        if can.stream_usage:
            built["stream_options"] = {"include_usage": True}
    asked.ignore(*KEPT_HERE)
    asked.require_neutral("background", False)
    asked.require_neutral("truncation", "disabled")
    asked.finish()
    return built


class ConversationReader:
    """Puts messages together from items: what the assistant thought, said and called in one go is one message."""

    def __init__(self, can: ChatAbilities) -> None:
        self._can = can
        self._messages: list[Part] = []

    def read(self, asked: CarriedFields) -> list[Part]:
        instructions = asked.take_raw("instructions")
        if instructions is not None:
            self._messages.append({"role": "system", "content": instructions})
        given = asked.take_raw("input")
        if given is not None and is_string(given):
            self._messages.append({"role": "user", "content": given})
        elif given is not None:
            for item in asked.read_objects("input", given):
                self._add(item)
        return [close_message(message) for message in self._messages]

    def _add(self, item: CarriedFields) -> None:
        kind = item.take("type", str) or "message"
        item.ignore("id", "status", "phase")
        match kind:
            case "message":
                self._add_message(item)
            case "function_call":
                function = {"name": item.require_raw("name"), "arguments": item.require_raw("arguments")}
                self._add_call(item, {"type": "function", "function": function})
                item.ignore("parsed_arguments")
            case "custom_tool_call":
                custom = {"name": item.require_raw("name"), "input": item.require_raw("input")}
                self._add_call(item, {"type": "custom", "custom": custom})
            case "function_call_output" | "custom_tool_call_output":
                result = {"role": "tool", "tool_call_id": item.require_raw("call_id"), "content": read_output(item)}
                self._messages.append(result)
            case "reasoning":
                self._add_thought(item)
            case _:
                item.refuse("type")
        item.finish()

    def _add_message(self, item: CarriedFields) -> None:
        role = item.require("role", str)
        if role not in ROLES:
            item.refuse("role")
        content = item.require_raw("content")
        parts: Any = content if is_string(content) else simplify(read_parts(item, content))
        if role != "assistant":
            self._messages.append({"role": role, "content": parts})
            return
        message = self._open_assistant(for_text=True)
        if message["content"] is None:
            message["content"] = parts
        else:
            message["content"] = list_parts(message["content"])
            message["content"] += list_parts(parts)

    def _open_assistant(self, *, for_text: bool = False) -> Part:
        """The assistant's message that is being put together, or a new one."""
        last = self._messages[-1] if self._messages else None
        if last is not None and last.get("open") and not (for_text and self._is_over(last)):
            return last
        self._messages.append({"role": "assistant", "content": None, "open": True})
        return self._messages[-1]

    def _is_over(self, message: Part) -> bool:
        """Whether what is said or thought now is another message of the assistant's.

        Chat wants the results of calls right behind the message that has them. Anthropic does not, and what it thought
        between two calls has to stay there.
        """
        return self._can.anthropic_fields if "tool_calls" in message else message["content"] is not None

    def _add_call(self, item: CarriedFields, call: Part) -> None:
        message = self._open_assistant()
        message.setdefault("tool_calls", []).append({"id": item.require_raw("call_id"), **call})
        item.require_neutral("namespace", "")

    def _add_thought(self, item: CarriedFields) -> None:
        """Thoughts go back in the form in which the upstream told them; those of other models do not."""
        sealed = item.take("encrypted_content", str)
        told = "".join(one.take("text", str) or "" for one in item.take_objects("content"))
        item.ignore("summary")
        field = find_signed_field(sealed)
        thoughts = unpack_thoughts(sealed) if self._can.anthropic_fields else []
        if field is None and not thoughts:
            return
        message = self._open_assistant(for_text=True)
        if field is not None:
            message.setdefault(field, []).append(told)
        else:
            message.setdefault("thinking_blocks", []).extend(thoughts)


def list_parts(content: Any) -> list[Part]:
    """The content of a message as parts."""
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def close_message(message: Part) -> Part:
    """A message that was put together, with its thoughts in one piece."""
    if message.pop("open", False):
        join_thoughts(message)
    return message


def read_output(item: CarriedFields) -> Any:
    output = item.require_raw("output")
    if is_string(output):
        return output
    parts = []
    for part in item.read_objects("output", output):
        if part.require("type", str) not in ("input_text", "output_text", "text"):
            part.refuse("type")
        parts.append({"type": "text", "text": part.require_raw("text")})
        part.finish()
    return simplify(parts) if parts else ""


def read_parts(item: CarriedFields, content: Raw) -> list[Part]:
    return [read_part(part) for part in item.read_objects("content", content)]


def read_part(part: CarriedFields) -> Part:
    match part.require("type", str):
        case "input_text" | "output_text" | "text":
            built: Part = {"type": "text", "text": part.require_raw("text")}
            part.ignore("annotations", "logprobs", "parsed")
        case "refusal":
            built = {"type": "refusal", "refusal": part.require_raw("refusal")}
        case "input_image":
            if "image_url" not in part:
                part.refuse("file_id")
            image: Part = {"url": part.require_raw("image_url")}
            put(image, "detail", part.take_raw("detail"))
            built = {"type": "image_url", "image_url": image}
        case "input_file":
            if "file_data" not in part:
                part.refuse("file_id" if "file_id" in part else "file_url")
            file: Part = {"file_data": part.require_raw("file_data")}
            put(file, "filename", part.take_raw("filename"))
            built = {"type": "file", "file": file}
        case "input_audio":
            built = {"type": "input_audio", "input_audio": part.require_raw("input_audio")}
        case _:
            part.refuse("type")
    part.finish()
    return built


def add_tools(built: dict[str, Any], asked: CarriedFields) -> None:
    tools = [read_tool(tool) for tool in asked.take_objects("tools")]
    if tools:
        built["tools"] = tools
    else:
        built.pop("parallel_tool_calls", None)  # chat refuses it without tools
    raw = asked.take_raw("tool_choice")
    choice = None if raw is None else msgspec.json.decode(raw)
    match choice:
        case None:
            return
        case "auto" | "none" if not tools:
            return
        case "auto" | "none" | "required":
            built["tool_choice"] = choice
        case {"type": "allowed_tools", "mode": str(mode), "tools": list(named), **rest} if not rest:
            allowed = {"mode": mode, "tools": [nest_name(one) or asked.refuse("tool_choice") for one in named]}
            built["tool_choice"] = {"type": "allowed_tools", "allowed_tools": allowed}
        case _:
            built["tool_choice"] = nest_name(choice) or asked.refuse("tool_choice")


def nest_name(tool: Any) -> Part | None:
    """The name of a tool as chat has it; None for tools that chat does not have."""
    match tool:
        case {"type": "function" | "custom" as kind, "name": str(name), **rest} if not rest:
            return {"type": kind, kind: {"name": name}}
    return None


def read_tool(tool: CarriedFields) -> Part:
    kind = tool.require("type", str)
    if kind not in ("function", "custom"):
        tool.refuse("type")
    built: Part = {"name": tool.require_raw("name")}
    put(built, "description", tool.take_raw("description"))
    if kind == "function":
        put(built, "parameters", tool.take_raw("parameters"))
        put(built, "strict", tool.take_raw("strict"))
    elif (wanted := tool.take("format", dict[str, Any])) is not None:
        plain = wanted.get("type") != "grammar"
        rest = {name: value for name, value in wanted.items() if name != "type"}
        built["format"] = wanted if plain else {"type": "grammar", "grammar": rest}
    tool.require_neutral("defer_loading", False)
    tool.finish()
    return {"type": kind, kind: built}


def read_format(wanted: CarriedFields) -> Part | None:
    """The shape of the answer; None: any text."""
    match wanted.take("type", str) or "text":
        case "json_schema" as kind:
            return {"type": kind, kind: wanted.take_rest()}
        case "json_object" as kind:
            return {"type": kind}
        case "text":
            return None
    wanted.refuse()


def add_format(built: dict[str, Any], asked: CarriedFields) -> None:
    """The shape of the answer, its length, and how much to think."""
    text, reasoning = asked.take_object("text"), asked.take_object("reasoning")
    if text is not None:
        put(built, "verbosity", text.take_raw("verbosity"))
        if (wanted := text.take_object("format")) is not None:
            put(built, "response_format", read_format(wanted))
            wanted.finish()
        text.finish()
    if reasoning is not None:
        put(built, "reasoning_effort", reasoning.take_raw("effort"))
        reasoning.ignore("summary", "generate_summary")
        reasoning.finish()
