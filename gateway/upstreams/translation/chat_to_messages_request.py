"""A chat request as a request to Anthropic's Messages."""

from typing import Any, Final

import msgspec
from msgspec import Raw

from gateway.errors import InvalidRequest
from gateway.upstreams.translation.carried_fields import UNREADABLE, CarriedFields, encode, is_string, put
from gateway.upstreams.translation.thoughts import read_offset
from gateway.upstreams.translation.uncarried import CHAT_TO_MESSAGES

LEADING_ROLES: Final = ("system", "developer")
COPIED: Final = ("model", "stream", "top_p", "top_k", "thinking", "cache_control")
NEUTRAL: Final[dict[str, tuple[Any, ...]]] = {
    "n": (1,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "verbosity": ("medium",),
    "modalities": (["text"],),
    "functions": ([],),
    "function_call": ("none",),
    "store": (False,),
    "metadata": ({},),
}
EFFORTS: Final = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}
TIERS: Final = {"auto": "auto", "default": "standard_only"}
FREE_CHOICES: Final = ({"type": "auto"}, {"type": "none"})  # that say nothing without tools
NO_PARAMETERS: Final = Raw(b'{"type":"object","properties":{}}')
DATA_URL: Final = "data:"

Block = dict[str, Any]


def build_messages_request(body: bytes, max_tokens: int) -> bytes:
    """The body for `/messages`; raises InvalidRequest for what it cannot carry. `max_tokens`: where nothing is said."""
    try:
        return encode(read_chat_request(CarriedFields(body, "", CHAT_TO_MESSAGES), max_tokens))
    except UNREADABLE as fault:
        raise InvalidRequest("The request cannot be read.") from fault


def read_chat_request(chat: CarriedFields, max_tokens: int) -> dict[str, Any]:
    built: dict[str, Any] = {}
    for name in COPIED:
        put(built, name, chat.take_raw(name))
    said = [chat.take_raw(name) for name in ("max_completion_tokens", "max_tokens")]
    built["max_tokens"] = next((value for value in said if value is not None), max_tokens)
    add_conversation(built, chat)
    add_sampling(built, chat)
    add_tools(built, chat)
    add_output(built, chat)
    if user := take_user(chat):
        built["metadata"] = {"user_id": user}
    chat.ignore("stream_options", "prompt_cache_key", "prompt_cache_retention")
    for name, values in NEUTRAL.items():
        chat.require_neutral(name, *values)
    chat.finish()
    return built


def take_user(chat: CarriedFields) -> str | None:
    """The id of the user, of which there is one."""
    known, user = chat.take("safety_identifier", str), chat.take("user", str)
    if known and user and known != user:
        chat.refuse("user")
    return known or user


def add_sampling(built: dict[str, Any], chat: CarriedFields) -> None:
    temperature = chat.take("temperature", float)
    if temperature is not None and temperature > 1:
        chat.refuse("temperature")
    put(built, "temperature", temperature)
    stop = chat.take("stop", str | list[str])  # type: ignore[arg-type]
    if stop:
        built["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    tier = chat.take("service_tier", str)
    if tier is not None and tier not in TIERS:
        chat.refuse("service_tier")
    put(built, "service_tier", TIERS.get(tier or ""))


def add_output(built: dict[str, Any], chat: CarriedFields) -> None:
    """The shape of the answer, and the effort that it may take."""
    config: dict[str, Any] = {}
    effort = chat.take("reasoning_effort", str)
    if effort == "none":
        built.setdefault("thinking", {"type": "disabled"})
    elif effort is not None:
        put(config, "effort", EFFORTS.get(effort) or chat.refuse("reasoning_effort"))
    wanted = chat.take_object("response_format")
    if wanted is not None:
        kind = wanted.require("type", str)
        if kind == "json_schema":
            config["format"] = {"type": kind, "schema": read_schema(wanted)}
        elif kind != "text":
            chat.refuse("response_format")
        wanted.finish()
    if config:
        built["output_config"] = config


def read_schema(wanted: CarriedFields) -> Raw:
    described = wanted.take_object("json_schema")
    if described is None:
        raise InvalidRequest("`response_format.json_schema` is missing.", param="response_format.json_schema")
    schema, description = described.require_raw("schema"), described.take("description", str)
    described.ignore("name", "strict")
    described.finish()
    return describe_schema(schema, description) if description else schema


def describe_schema(schema: Raw, description: str) -> Raw:
    """The schema with what is said about the format, which has no other place."""
    fields = msgspec.json.decode(schema, type=dict[str, Any])
    known = fields.get("description", description)
    return Raw(encode({**fields, "description": known if known == description else f"{description}\n\n{known}"}))


def add_tools(built: dict[str, Any], chat: CarriedFields) -> None:
    tools = [read_tool(tool) for tool in chat.take_objects("tools")]
    if tools:
        built["tools"] = tools
    choice = read_choice(chat)
    parallel = chat.take("parallel_tool_calls", bool)
    if parallel is False and tools:
        choice = choice or {"type": "auto"}
        if choice["type"] != "none":
            choice["disable_parallel_tool_use"] = True
    if tools or choice not in FREE_CHOICES:
        put(built, "tool_choice", choice)


def read_tool(tool: CarriedFields) -> Block:
    kind = tool.require("type", str)
    if kind != "function":
        tool.refuse("custom" if kind == "custom" else "type")
    function = tool.take_object("function")
    if function is None:
        raise InvalidRequest(f"`{tool.name('function')}` is missing.", param=tool.name("function"))
    built: Block = {"name": function.require_raw("name")}
    put(built, "description", function.take_raw("description"))
    built["input_schema"] = function.take_raw("parameters") or NO_PARAMETERS
    if function.take("strict", bool):
        built["strict"] = True
    put(built, "cache_control", tool.take_raw("cache_control"))
    function.finish()
    tool.finish()
    return built


def read_choice(chat: CarriedFields) -> Block | None:
    raw = chat.take_raw("tool_choice")
    if raw is None:
        return None
    choice = msgspec.json.decode(raw)
    match choice:
        case "auto" | "none":
            return {"type": choice}
        case "required":
            return {"type": "any"}
        case {"type": "function", "function": {"name": str(name), **more}, **rest} if not (more or rest):
            return {"type": "tool", "name": name}
    chat.refuse("tool_choice")


def add_conversation(built: dict[str, Any], chat: CarriedFields) -> None:
    system: list[Block] = []
    turns: list[Block] = []
    for message in chat.take_objects("messages"):
        role = message.require("role", str)
        if role in LEADING_ROLES and not turns:
            system += read_content(message)
        else:
            add_turn(turns, message, role)
        message.require_neutral("function_call")
        message.ignore("annotations", "parsed", "provider_specific_fields")
        if role == "tool":
            message.ignore("name")  # the call has it
        message.require_neutral("name", "")
        message.finish()
    if system:
        built["system"] = system
    built["messages"] = turns


def add_turn(turns: list[Block], message: CarriedFields, role: str) -> None:
    """Add one message; results of tools stand in the user's message that follows the calls, before what it says."""
    match role:
        case "user" | "system" | "developer":
            blocks = read_content(message)
        case "tool":
            blocks = [read_result(message)]
        case "assistant":
            blocks = read_assistant(message)
        case _:
            message.refuse("role")
    speaker = {"tool": "user", "developer": "system"}.get(role, role)
    if not blocks:
        return  # an empty message says nothing, and Anthropic refuses it
    if turns and turns[-1]["role"] == speaker == "user":
        turns[-1]["content"] += blocks
    else:
        turns.append({"role": speaker, "content": blocks})


def read_result(message: CarriedFields) -> Block:
    result: Block = {"type": "tool_result", "tool_use_id": message.require_raw("tool_call_id")}
    content = message.take_raw("content")
    if content is not None:
        result["content"] = content if is_string(content) else read_parts(message, content)
    return result


def read_content(message: CarriedFields) -> list[Block]:
    """The content of a message as blocks; an empty text is none."""
    content = message.take_raw("content")
    if content is None:
        return []
    if is_string(content):
        return [{"type": "text", "text": content}] if bytes(content) != b'""' else []
    return read_parts(message, content)


def read_parts(message: CarriedFields, content: Raw) -> list[Block]:
    return [block for part in message.read_objects("content", content) if (block := read_part(part)) is not None]


def read_part(part: CarriedFields) -> Block | None:
    match part.require("type", str):
        case "text":
            block: Block = {"type": "text", "text": part.require_raw("text")}
        case "refusal":
            block = {"type": "text", "text": part.require_raw("refusal")}
        case "image_url":
            block = {"type": "image", "source": read_image(part)}
        case "file":
            block = read_file(part)
        case kind:
            part.refuse(kind)
    put(block, "cache_control", part.take_raw("cache_control"))
    part.finish()
    return None if bytes(block.get("text") or b"-") == b'""' else block


def read_image(part: CarriedFields) -> Block:
    image = part.take_object("image_url")
    if image is None:
        part.refuse("image_url")
    url = image.require("url", str)
    image.ignore("detail")
    source = read_data_url(url)
    if source is None and url.startswith(DATA_URL):
        image.refuse("url")
    image.finish()
    return source or {"type": "url", "url": url}


def read_file(part: CarriedFields) -> Block:
    """A PDF; Anthropic has no other files in a request."""
    file = part.take_object("file")
    if file is None or "file_data" not in file:
        (file or part).refuse("file_id" if file is not None else "file")
    source = read_data_url(file.require("file_data", str))
    if source is None or source["media_type"] != "application/pdf":
        file.refuse("file_data")
    block: Block = {"type": "document", "source": source}
    put(block, "title", file.take_raw("filename"))
    file.finish()
    return block


def read_data_url(url: str) -> Block | None:
    """The source of a block whose bytes stand in the request in base64; None for any other URL."""
    kind, _, data = url.removeprefix(DATA_URL).partition(",")
    media_type, *parameters = kind.split(";")
    if not url.startswith(DATA_URL) or "base64" not in parameters:
        return None
    return {"type": "base64", "media_type": media_type, "data": data}


def read_assistant(message: CarriedFields) -> list[Block]:
    """Texts, thoughts and calls in the order in which the model wrote them."""
    said = read_content(message)
    refusal = message.take_raw("refusal")
    if refusal is not None and bytes(refusal) != b'""':
        said.append({"type": "text", "text": refusal})
    calls = [read_call(call) for call in message.take_objects("tool_calls")]
    thoughts = message.take("thinking_blocks", list[dict[str, Any]]) or []
    message.ignore("reasoning_content", "reasoning")
    return insert_thoughts(thoughts, said, calls) if thoughts else [*said, *calls]


def read_call(call: CarriedFields) -> Block:
    if call.take("type", str) not in (None, "function"):
        call.refuse("type")
    function = call.take_object("function")
    if function is None:
        call.refuse("function")
    arguments = (function.take("arguments", str) or "").strip() or "{}"
    try:
        msgspec.json.decode(arguments, type=dict[str, Raw])
    except UNREADABLE as fault:
        path = function.name("arguments")
        raise InvalidRequest(f"`{path}` must be a JSON object in a string.", param=path) from fault
    call.ignore("index")
    built = {"type": "tool_use", "id": call.require_raw("id"), "name": function.require_raw("name")}
    function.ignore("parsed_arguments")
    function.finish()
    call.finish()
    return {**built, "input": Raw(arguments.encode())}


def insert_thoughts(thoughts: list[dict[str, Any]], said: list[Block], calls: list[Block]) -> list[Block]:
    """Thoughts exactly where they stood; `offset` says behind how many characters and calls, absent: at the start."""
    moved = any("offset" in thought for thought in thoughts)
    texts = [block for block in said if "text" in block] if moved else []
    text = "".join(msgspec.json.decode(block["text"]) for block in texts)
    blocks: list[Block] = []
    taken = placed = 0
    for thought in thoughts:
        offset = read_offset(thought)
        if text[taken : offset.text]:
            blocks.append({"type": "text", "text": text[taken : offset.text]})
        blocks += calls[placed : offset.calls]
        taken, placed = max(taken, offset.text), max(placed, offset.calls)
        blocks.append({name: value for name, value in thought.items() if name not in ("index", "offset")})
    if not taken:
        return [*blocks, *said, *calls[placed:]]
    others = [block for block in said if "text" not in block]
    rest: list[Block] = [{"type": "text", "text": text[taken:]}] if text[taken:] else []
    if rest and "cache_control" in texts[-1]:
        rest[0]["cache_control"] = texts[-1]["cache_control"]
    return [*blocks, *others, *rest, *calls[placed:]]
