"""Cases for `gateway eval`, proposed from receipts: questions, and the resources that turned out to matter.

A resource is expected if semantic search picked it and the answer shows it, or if the model fetched it after search had
left it out. Only receipts with text (`receipts.text`) can be used, and picks only of exchanges that were compared.
"""

from collections.abc import AsyncIterable, Iterator
from typing import Any

import msgspec
import orjson

from gateway.analytics.facts import FactReader, ReceiptFacts
from gateway.domain.receipt import Receipt, ReceiptPage
from gateway.domain.resource import Mode
from gateway.domain.snapshot import Snapshot
from gateway.receipts.views import read_fields

MOST_CASES = 500
LONGEST_QUESTION = 2000  # characters
MOST_EARLIER = 3
HEADERS = ("agent", "content")  # of the receipt; the others of a case stand in its summary
SUMMARY_HEADERS = ("profile", "prompt", "user")


class CaseProposals(msgspec.Struct):
    """What was found, and why there is not more."""

    cases: list[dict[str, Any]] = msgspec.field(default_factory=list)
    receipts: int = 0
    without_text: int = 0
    without_evidence: int = 0


async def propose_cases(pages: AsyncIterable[ReceiptPage], snapshot: Snapshot) -> CaseProposals:
    """The cases that receipts suggest, newest first, each question of an agent once."""
    found, reader, known = CaseProposals(), FactReader(), set[tuple[Any, ...]]()
    async for page in pages:
        for receipt in page.receipts:
            if receipt.status != "ok":
                continue
            found.receipts += 1
            case = _propose(receipt, reader.read(receipt), snapshot, found)
            if case is not None and (key := (case["question"], case.get("agent"), case.get("content"))) not in known:
                known.add(key)
                found.cases.append(case)
            if len(found.cases) >= MOST_CASES:
                return found
    return found


def _propose(receipt: Receipt, facts: ReceiptFacts, snapshot: Snapshot, found: CaseProposals) -> dict[str, Any] | None:
    details = read_fields(receipt.details)
    asked = list(_read_questions(details.get("text")))
    if not asked:
        found.without_text += 1
        return None
    expected = sorted(id for id in _list_expected(facts) if _is_semantic(id, snapshot))
    if not expected:
        found.without_evidence += 1
        return None
    summary = read_fields(receipt.summary)
    headers = {name: getattr(receipt, name) for name in HEADERS} | {name: summary.get(name) for name in SUMMARY_HEADERS}
    case = {"question": asked[-1], "expect": expected, **{name: value for name, value in headers.items() if value}}
    return case | ({"earlier": asked[:-1][-MOST_EARLIER:]} if len(asked) > 1 else {})


def _list_expected(facts: ReceiptFacts) -> Iterator[str]:
    picks = facts.selection.picks
    yield from (one.id for one in facts.overlap if one.is_shown and one.id in picks)
    yield from (id for id, tool in facts.fetched.items() if tool.left_out == "below_threshold")


def _is_semantic(id: str, snapshot: Snapshot) -> bool:
    resource = snapshot.resources.get(id)
    return resource is not None and resource.mode is Mode.SEMANTIC


def _read_questions(text: Any) -> Iterator[str]:
    """What the user said, oldest first; nothing if the request was not stored whole."""
    try:
        request = orjson.loads(text["request"])
        messages = request["messages"] if "messages" in request else request["input"]
    except (KeyError, TypeError, orjson.JSONDecodeError):
        return
    if isinstance(messages, str):  # as responses may have it
        messages = [{"role": "user", "content": messages}]
    for message in messages if isinstance(messages, list) else ():
        said = message.get("content") if isinstance(message, dict) and message.get("role") == "user" else None
        parts = said if isinstance(said, list) else [{"text": said}]
        texts = [one["text"] for one in parts if isinstance(one, dict) and isinstance(one.get("text"), str)]
        if question := " ".join(texts).strip():
            yield question[:LONGEST_QUESTION]
