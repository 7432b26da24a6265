"""The output items of a response, put together from what a chat message says, with the events that tell of them."""

from typing import Any, Final

from gateway.errors import UpstreamInvalid
from gateway.upstreams.translation.chat_completion import (
    CallSequence,
    ChatMessage,
    StreamedCall,
    ToldCall,
    iterate_thoughts,
)
from gateway.upstreams.translation.thoughts import FIELD_SIGNATURES, THINKING, pack_thoughts

Event = dict[str, Any]
Item = dict[str, Any]

REFUSAL: Final = "refusal"
TEXT: Final = "output_text"
REASONING: Final = "reasoning_text"


class OpenPart:
    """The part of an item that is being written."""

    __slots__ = ("fragments", "index", "kind", "logprobs")

    def __init__(self, kind: str, index: int) -> None:
        self.kind, self.index = kind, index
        self.fragments: list[str] = []
        self.logprobs: list[Any] = []

    def build(self) -> dict[str, Any]:
        text = "".join(self.fragments)
        if self.kind == TEXT:
            return {"type": TEXT, "annotations": [], "logprobs": self.logprobs, "text": text}
        return {"type": self.kind, REFUSAL if self.kind == REFUSAL else "text": text}


class SignedThought:
    """A thinking block, put together from fragments."""

    __slots__ = ("_fields", "_fragments")

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._fragments: list[str] = []

    def continues(self, block: dict[str, Any]) -> bool:
        """Whether `block` is a further fragment of this thought."""
        return self._fields.get("type") == block.get("type") == THINKING and not self._fields.get("signature")

    def add(self, block: dict[str, Any]) -> None:
        self._fields |= {name: value for name, value in block.items() if value is not None and name != THINKING}
        if isinstance(told := block.get(THINKING), str):
            self._fragments.append(told)

    def build(self) -> dict[str, Any]:
        told = {THINKING: "".join(self._fragments)} if self._fields.get("type") == THINKING else {}
        return {"type": self._fields.get("type"), **told, **self._fields}


class ResponseOutput:
    """One item after the other: thoughts, a message, calls. `add` and `close` return the events of what they change."""

    def __init__(self, identity: str) -> None:
        self.items: list[Item] = []
        self._identity = identity
        self._open: Item | None = None  # the last item, while it is being written
        self._part: OpenPart | None = None
        self._sealed = ""  # how the open thought goes back upstream
        self._signed: list[SignedThought] = []  # its signed blocks
        self._calls = CallSequence()
        self._last: StreamedCall | None = None  # that was told
        self._call: StreamedCall | None = None  # whose item is open

    def add(self, delta: ChatMessage, logprobs: dict[str, Any] | None = None) -> list[Event]:
        """Take what a message or a chunk of one says."""
        events: list[Event] = []
        signed = list(iterate_thoughts(delta))
        told = delta.find_thought()
        if signed or told is not None:
            events += self._think(signed, told.text if told is not None else "")
            self._sealed = self._sealed or (FIELD_SIGNATURES[told.field] if told is not None else "")
        if delta.text:
            events += self._speak(TEXT, delta.text, (logprobs or {}).get("content") or [])
        if delta.refusal:
            events += self._speak(REFUSAL, delta.refusal, [])
        for call in delta.tool_calls or ():
            events += [event for told in self._calls.take(call) for event in self._tell_call(told)]
        return events

    def close(self, *, is_cut: bool = False) -> list[Event]:
        """Nothing more comes; the last item is incomplete if the model was cut short."""
        events = [event for told in self._calls.settle() for event in self._tell_call(told)]
        events += self._name_call(self._last)
        return events + self._close_item("incomplete" if is_cut else "completed")

    def _think(self, signed: list[dict[str, Any]], told: str) -> list[Event]:
        events = self._open_item("reasoning", {"summary": [], "content": [], "encrypted_content": None})
        for block in signed:
            self._add_signed(block)
        return events + (self._write(REASONING, told) if told else [])

    def _add_signed(self, block: dict[str, Any]) -> None:
        """Fragments of one thought belong together until its signature comes."""
        if not self._signed or not self._signed[-1].continues(block):
            self._signed.append(SignedThought())
        self._signed[-1].add(block)

    def _speak(self, kind: str, text: str, logprobs: list[Any]) -> list[Event]:
        events = self._open_item("message", {"role": "assistant", "content": []})
        return events + self._write(kind, text, logprobs)

    def _write(self, kind: str, text: str, logprobs: list[Any] | None = None) -> list[Event]:
        """Add to the part of this kind; another kind begins a part of its own."""
        item = self._open
        assert item is not None
        events: list[Event] = []
        if self._part is None or self._part.kind != kind:
            events += self._close_part()
            self._part = OpenPart(kind, len(item["content"]))
            events.append(self._locate("response.content_part.added", part=self._part.build()))
        part = self._part
        part.fragments.append(text)
        delta = self._locate(f"response.{part.kind}.delta", delta=text)
        if kind == TEXT:
            part.logprobs += logprobs or []
            delta["logprobs"] = logprobs or []
        return [*events, delta]

    def _close_part(self) -> list[Event]:
        part, item = self._part, self._open
        if part is None or item is None:
            return []
        built = part.build()
        item["content"].append(built)
        said = {name: value for name, value in built.items() if name not in ("type", "annotations")}
        events = [
            self._locate(f"response.{part.kind}.done", **said),
            self._locate("response.content_part.done", part=built),
        ]
        self._part = None
        return events

    def _locate(self, kind: str, **fields: Any) -> Event:
        """An event about the open part."""
        assert self._open is not None
        assert self._part is not None
        place = {"item_id": self._open["id"], "output_index": len(self.items) - 1, "content_index": self._part.index}
        return {"type": kind, **place, **fields}

    def _tell_call(self, told: ToldCall) -> list[Event]:
        call = told.call
        events: list[Event] = []
        if call is not self._last:
            events += self._name_call(self._last) + self._close_item()
            self._last = call
        if told.arguments:
            events += self._name_call(call)
            if self._call is not call:
                raise UpstreamInvalid("The upstream went back to a tool call after it had said something else.")
            kind = "custom_tool_call_input" if call.is_custom else "function_call_arguments"
            events.append(self._locate_item(f"response.{kind}.delta", delta=told.arguments))
        return events

    def _name_call(self, call: StreamedCall | None) -> list[Event]:
        """Begin the item of a call whose name is certain now."""
        if call is None or call.is_named:
            return []
        call.is_named = True
        kind, text = ("custom_tool_call", "input") if call.is_custom else ("function_call", "arguments")
        closed = self._close_item()
        self._call = call
        return closed + self._open_item(kind, {"call_id": call.id, "name": call.name, text: ""})

    def _locate_item(self, kind: str, **fields: Any) -> Event:
        assert self._open is not None
        return {"type": kind, "item_id": self._open["id"], "output_index": len(self.items) - 1, **fields}

    def _open_item(self, kind: str, fields: Item) -> list[Event]:
        if self._open is not None and self._open["type"] == kind:
            return []
        events = self._close_item()
        prefix = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}[kind]
        identity = f"{prefix}_{self._identity}_{len(self.items)}"
        self._open = {"id": identity, "type": kind, "status": "in_progress", **fields}
        self.items.append(self._open)
        return [*events, self._tell_item("added")]

    def _close_item(self, status: str = "completed") -> list[Event]:
        item = self._open
        if item is None:
            return []
        events = self._close_part()
        item["status"] = status
        if item["type"] == "reasoning":
            signed = [thought.build() for thought in self._signed]
            item["encrypted_content"] = pack_thoughts(signed) if signed else self._sealed
            self._signed, self._sealed = [], ""
        elif self._call is not None:
            events += self._close_call(item, self._call)
            self._call = None
        events.append(self._tell_item("done"))
        self._open = None
        return events

    def _close_call(self, item: Item, call: StreamedCall) -> list[Event]:
        if item["type"] == "custom_tool_call":
            item["input"] = call.arguments
            return [self._locate_item("response.custom_tool_call_input.done", input=item["input"])]
        item["arguments"] = call.arguments or "{}"
        said = {"name": item["name"], "arguments": item["arguments"]}
        return [self._locate_item("response.function_call_arguments.done", **said)]

    def _tell_item(self, word: str) -> Event:
        assert self._open is not None
        # A copy: the item goes on changing while the event may not have been written yet.
        item = {name: list(value) if isinstance(value, list) else value for name, value in self._open.items()}
        return {"type": f"response.output_item.{word}", "output_index": len(self.items) - 1, "item": item}
