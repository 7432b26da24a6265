"""What the demo model answers: a pure function from a chat request to text and tool calls (CONTRACT §8)."""

import re
from typing import Any

import msgspec

from gateway.upstreams.demo.request import CatalogueEntry, ContextLine, DemoMessage, DemoRequest, read_blocks
from gateway.upstreams.demo.schema_value import SchemaWriter

GET_TOOL_NAME = re.compile(r"get_context_resource(_\d+)?")
MAX_EXCERPT = 600  # characters of a tool's result that an answer repeats
# They count only where nothing else is shared.
STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a about an and are as at be by can do does for from how i in is it its me my of on or our "
        "should that the this to us use was we what when where which who why will with you your",
    )
)


class DemoToolCall(msgspec.Struct, frozen=True):
    """A call that the model makes."""

    name: str
    arguments: dict[str, str]


class DemoAnswer(msgspec.Struct, frozen=True):
    """What the model says in one turn: text or calls."""

    text: str = ""
    calls: tuple[DemoToolCall, ...] = ()


class DemoToolResult(msgspec.Struct, frozen=True):
    """What a tool answered."""

    tool: str
    text: str


class DemoSituation(msgspec.Struct, frozen=True):
    """A request as the model understands it."""

    question: str
    words: str  # of the question, in lower case with a space around each
    lines: tuple[ContextLine, ...]
    catalogue: tuple[CatalogueEntry, ...]
    offered: tuple[str, ...]  # names of the tools that may be called
    results: tuple[DemoToolResult, ...]  # since the last user message


def answer_request(request: DemoRequest) -> DemoAnswer:
    """One turn of the demo model."""
    situation = parse_situation(request)
    calls = _choose_calls(situation, request.tool_choice)
    if calls:
        return DemoAnswer(calls=calls)
    text = _quote_results(situation) if situation.results else _quote_context(situation)
    wanted = request.response_format
    if wanted and wanted.type != "text":
        schema = wanted.json_schema.schema if wanted.type == "json_schema" and wanted.json_schema else None
        document = {"answer": text} if schema is None else SchemaWriter(schema, text).write(schema)
        text = msgspec.json.encode(document).decode()
    return DemoAnswer(text)


def parse_situation(request: DemoRequest) -> DemoSituation:
    """Separate the question, the injected blocks and the tools' results."""
    blocks = {
        position: read_blocks(message.text)
        for position, message in enumerate(request.messages)
        if message.role in ("system", "developer", "user")
    }
    last = max((at for at in blocks if request.messages[at].role == "user"), default=-1)
    offered = [tool.function.name for tool in request.tools or () if tool.function]
    question = "\n".join(blocks[last].rest).strip() if last >= 0 else ""
    return DemoSituation(
        question=question,
        words=_normalize_words(question),
        lines=tuple(line for block in blocks.values() for line in block.lines),
        catalogue=tuple(entry for block in blocks.values() for entry in block.catalogue),
        offered=() if request.tool_choice == "none" else tuple(offered),
        results=_list_results(request.messages[last + 1 :]),
    )


def _list_results(messages: list[DemoMessage]) -> tuple[DemoToolResult, ...]:
    names = {call.id: call.function.name for message in messages for call in message.tool_calls or () if call.function}
    return tuple(
        DemoToolResult(names[message.tool_call_id], message.text)
        for message in messages
        if message.role == "tool" and message.tool_call_id in names
    )


def _choose_calls(situation: DemoSituation, choice: str | dict[str, Any] | None) -> tuple[DemoToolCall, ...]:
    """Every tool that the question asks for and that has not answered yet, in the order of the offer."""
    # The gateway's own tools come last.
    get = next((name for name in reversed(situation.offered) if GET_TOOL_NAME.fullmatch(name)), None)
    answered = {result.tool for result in situation.results}
    open_names = [name for name in situation.offered if name not in answered]
    entry = find_named_entry(situation)
    wanted = [
        DemoToolCall(name, {"resource_id": entry.id} if name == get and entry else {})
        for name in open_names
        if (entry if name == get else _mentions(situation.words, name))
    ]
    if wanted or not open_names:
        return tuple(wanted)
    forced = choice.get("function") if isinstance(choice, dict) else None
    if isinstance(forced, dict) and forced.get("name") in open_names:
        return (DemoToolCall(str(forced["name"]), {}),)
    return (DemoToolCall(open_names[0], {}),) if choice == "required" else ()


def find_named_entry(situation: DemoSituation) -> CatalogueEntry | None:
    """The catalogue entry whose name or id the question mentions; the longest name is the most exact."""
    words = situation.words
    found = [entry for entry in situation.catalogue if _mentions(words, entry.name) or _mentions(words, entry.id)]
    return max(found, key=lambda entry: len(entry.name), default=None)


def _quote_results(situation: DemoSituation) -> str:
    return "\n".join(map(_quote_result, situation.results))


def _quote_result(result: DemoToolResult) -> str:
    heading, _, text = result.text.partition("\n")
    if GET_TOOL_NAME.fullmatch(result.tool) and heading.startswith("[") and heading.endswith("]"):
        return f"From {heading}: {_cut_excerpt(text)}"
    return f"{result.tool} says: {_cut_excerpt(result.text)}"


def _quote_context(situation: DemoSituation) -> str:
    if situation.lines:
        asked = set(situation.words.split())
        line = max(situation.lines, key=lambda line: _score_line(asked, line))
        return f"From [{line.source}]: {line.text}" if line.source else f"From the context: {line.text}"
    if situation.catalogue:
        names = ", ".join(entry.name for entry in situation.catalogue)
        return f"No text was injected, but I can look up: {names}. You asked: {situation.question}"
    return f"No context was injected. You asked: {situation.question}"


def _score_line(asked: set[str], line: ContextLine) -> tuple[int, int]:
    """How much a line has in common with the question: words with a meaning count first."""
    common = asked.intersection(_normalize_words(line.text).split())
    return len(common - STOP_WORDS), len(common)


def _mentions(words: str, name: str) -> bool:
    """Whether `words` contain the words of `name` in a row."""
    named = _normalize_words(name)
    return named in words and not named.isspace()


def _normalize_words(text: str) -> str:
    """The words of a text in lower case, a space around each."""
    words = re.findall(r"\w+", text.casefold())
    return f" {' '.join(words)} "


def _cut_excerpt(text: str) -> str:
    """The beginning of a text, cut after a paragraph or else after a word."""
    if len(text) <= MAX_EXCERPT:
        return text.strip()
    head = text[:MAX_EXCERPT]
    return head[: max(head.rfind("\n\n"), 0)].strip() or head.rsplit(maxsplit=1)[0].strip() + " …"
