"""What the demo model answers: a pure function from a chat request to text and tool calls (CONTRACT §8)."""

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.upstreams.demo.blocks import CatalogueEntry, ContextLine, read_blocks
from gateway.upstreams.demo.request import DemoMessage, DemoRequest

GET = re.compile(r"get_context_resource(_\d+)?")
QUOTE = 600  # characters of a tool's result that an answer repeats
# Words that say nothing about a subject; they count only where nothing else is shared.
SMALL = frozenset(
    re.findall(
        r"\w+",
        "a about an and are as at be by can do does for from how i in is it its me my of on or our "
        "should that the this to us use was we what when where which who why will with you your",
    )
)


@dataclass(frozen=True, slots=True)
class DemoToolCall:
    """A call that the model makes."""

    name: str
    arguments: dict[str, str]


@dataclass(frozen=True, slots=True)
class DemoAnswer:
    """What the model says in one turn: text or calls."""

    text: str = ""
    calls: tuple[DemoToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class DemoSituation:
    """A request as the model understands it."""

    question: str
    words: str  # of the question, in lower case with a space around each
    lines: tuple[ContextLine, ...]
    catalogue: tuple[CatalogueEntry, ...]
    offered: tuple[str, ...]  # names of the tools that may be called
    results: tuple[tuple[str, str], ...]  # (tool, result) since the last user message


def answer(request: DemoRequest) -> DemoAnswer:
    """One turn of the demo model."""
    situation = understand(request)
    calls = _calls(situation, request.tool_choice)
    if calls:
        return DemoAnswer(calls=calls)
    text = _quote_results(situation) if situation.results else _quote_context(situation)
    if request.response_format and request.response_format.type != "text":
        text = msgspec.json.encode({"answer": text}).decode()
    return DemoAnswer(text)


def understand(request: DemoRequest) -> DemoSituation:
    """Separate the question, the injected blocks and the tools' results."""
    readings = {
        position: read_blocks(message.text)
        for position, message in enumerate(request.messages)
        if message.role in ("system", "developer", "user")
    }
    last = max((at for at in readings if request.messages[at].role == "user"), default=-1)
    offered = [tool.function.name for tool in request.tools or () if tool.function]
    question = "\n".join(readings[last].rest).strip() if last >= 0 else ""
    return DemoSituation(
        question=question,
        words=_words(question),
        lines=tuple(line for reading in readings.values() for line in reading.lines),
        catalogue=tuple(entry for reading in readings.values() for entry in reading.catalogue),
        offered=() if request.tool_choice == "none" else tuple(offered),
        results=_results(request.messages[last + 1 :]),
    )


def _results(messages: list[DemoMessage]) -> tuple[tuple[str, str], ...]:
    names = {call.id: call.function.name for message in messages for call in message.tool_calls or () if call.function}
    return tuple(
        (names[message.tool_call_id], message.text)
        for message in messages
        if message.role == "tool" and message.tool_call_id in names
    )


def _calls(situation: DemoSituation, choice: str | dict[str, Any] | None) -> tuple[DemoToolCall, ...]:
    """Every tool that the question asks for and that has not answered yet, in the order of the offer."""
    get = next((name for name in reversed(situation.offered) if GET.fullmatch(name)), None)  # the gateway's come last
    open_names = [name for name in situation.offered if name not in {done for done, _ in situation.results}]
    entry = named_entry(situation)
    wanted = [
        DemoToolCall(name, {"resource_id": entry.id} if name == get and entry else {})
        for name in open_names
        if (entry if name == get else _says(situation.words, name))
    ]
    if wanted or not open_names:
        return tuple(wanted)
    forced = choice.get("function") if isinstance(choice, dict) else None
    if isinstance(forced, dict) and forced.get("name") in open_names:
        return (DemoToolCall(str(forced["name"]), {}),)
    return (DemoToolCall(open_names[0], {}),) if choice == "required" else ()


def named_entry(situation: DemoSituation) -> CatalogueEntry | None:
    """The catalogue entry whose name or id stands in the question; the longest name is the most exact."""
    found = [entry for entry in situation.catalogue if any(_says(situation.words, it) for it in (entry.name, entry.id))]
    return max(found, key=lambda entry: len(entry.name), default=None)


def _quote_results(situation: DemoSituation) -> str:
    return "\n".join(_quote_result(tool, result) for tool, result in situation.results)


def _quote_result(tool: str, result: str) -> str:
    heading, _, text = result.partition("\n")
    if GET.fullmatch(tool) and heading.startswith("[") and heading.endswith("]"):
        return f"From {heading}: {_excerpt(text)}"
    return f"{tool} says: {_excerpt(result)}"


def _quote_context(situation: DemoSituation) -> str:
    if situation.lines:
        asked = set(situation.words.split())
        line = max(situation.lines, key=lambda line: _shared(asked, line))
        return f"From [{line.source}]: {line.text}" if line.source else f"From the context: {line.text}"
    if situation.catalogue:
        names = ", ".join(entry.name for entry in situation.catalogue)
        return f"No text was injected, but I can look up: {names}. You asked: {situation.question}"
    return f"No context was injected. You asked: {situation.question}"


def _shared(asked: set[str], line: ContextLine) -> tuple[int, int]:
    common = asked.intersection(_words(line.text).split())
    return len(common - SMALL), len(common)


def _says(words: str, name: str) -> bool:
    """Whether the words of `name` stand among `words`, in a row."""
    return _words(name) in words and not _words(name).isspace()


def _words(text: str) -> str:
    """The words of a text in lower case, a space around each."""
    words = re.findall(r"\w+", text.casefold())
    return f" {' '.join(words)} "


def _excerpt(text: str) -> str:
    """The beginning of a text, cut after a paragraph or else after a word."""
    if len(text) <= QUOTE:
        return text.strip()
    head = text[:QUOTE]
    return head[: max(head.rfind("\n\n"), 0)].strip() or head.rsplit(maxsplit=1)[0].strip() + " …"
