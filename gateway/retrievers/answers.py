"""Reads what a search endpoint answers: foreign JSON, of which only texts, titles, sources and scores are taken."""

from collections.abc import Iterator, Sequence
from itertools import islice
from math import isfinite
from typing import Any

import orjson

from gateway.domain.retriever import MAX_PASSAGES, FoundPassage
from gateway.resources.retriever import SearchFields

SCANNED = 10 * MAX_PASSAGES  # results that are looked at: some have no text
LONGEST_LABEL = 300  # characters of a title or a source


class RetrieverError(Exception):
    """Why a lookup failed, in words for a person; never with a header, an address or the answer itself."""


def decode_answer(body: bytes) -> Any:
    """The JSON of an answer; its depth is bounded by the parser."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RetrieverError("the endpoint did not answer with JSON") from error


def read_results(answer: Any, fields: SearchFields) -> list[FoundPassage]:
    """The passages of an answer in the shape that a policy describes; results without a text are left out."""
    results = answer if isinstance(answer, list) else find_value(answer, fields.results)
    if not isinstance(results, list):
        raise RetrieverError(f"the answer has no list at {fields.results!r}")
    looked_at = results[:SCANNED]
    found = [one for one in (_read_result(result, fields) for result in looked_at) if one is not None]
    if looked_at and not found:
        raise RetrieverError(f"no result has a text at {fields.text!r}")
    return found


def _read_result(result: Any, fields: SearchFields) -> FoundPassage | None:
    if isinstance(result, str):
        return FoundPassage(result) if result.strip() else None
    text = find_value(result, fields.text)
    if not isinstance(text, str) or not text.strip():
        return None
    title, source = read_label(find_value(result, fields.title)), read_label(find_value(result, fields.source))
    return FoundPassage(text, title, source, read_score(find_value(result, fields.score)))


def read_vector_store(answer: Any) -> list[FoundPassage]:
    """The passages of an answer in the shape of OpenAI's vector store search."""
    results = find_value(answer, "data")
    if not isinstance(results, list):
        raise RetrieverError("the answer has no list at 'data'")
    return [found for result in results[:SCANNED] if (found := _read_match(result)) is not None]


def _read_match(result: Any) -> FoundPassage | None:
    text = "\n".join(_list_texts(find_value(result, "content")))
    if not text.strip():
        return None
    name = read_label(find_value(result, "filename"))
    about = find_value(result, "attributes")
    places = (read_label(find_value(about, key)) for key in ("url", "source"))
    source = next((place for place in places if place), name or read_label(find_value(result, "file_id")))
    return FoundPassage(text, name, source, read_score(find_value(result, "score")))


def _list_texts(content: Any) -> Iterator[str]:
    for part in islice(content, SCANNED) if isinstance(content, list) else ():
        text = find_value(part, "text")
        if isinstance(text, str) and find_value(part, "type") == "text":
            yield text


def find_value(value: Any, path: str) -> Any:
    """What stands at a path of keys with dots between them; None if nothing does."""
    for key in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def read_label(value: Any) -> str:
    """A title or a source in one line."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    return " ".join(clean(value[:LONGEST_LABEL]).split()) if isinstance(value, str) else ""


def read_score(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if isfinite(value) else None


def bound_passages(
    found: Sequence[FoundPassage], limit: int, characters: int, min_score: float | None
) -> tuple[FoundPassage, ...]:
    """At most `limit` passages, each cut to its length, with scores between 0 and 1 or none at all."""
    kept: list[FoundPassage] = []
    for one in islice(found, SCANNED):
        if not isinstance(one, FoundPassage) or not isinstance(one.text, str):
            raise RetrieverError("the retriever did not return passages")
        score = read_score(one.score)
        if min_score is not None and score is not None and score < min_score:
            continue
        kept.append(FoundPassage(clean(one.text[:characters]), read_label(one.title), read_label(one.source), score))
        if len(kept) == limit:
            break
    return scale_scores(kept)


def scale_scores(found: Sequence[FoundPassage]) -> tuple[FoundPassage, ...]:
    """Scores beyond 1 are parts of the best one; below 0 they say nothing."""
    highest = max((one.score for one in found if one.score is not None), default=0.0)
    unit = max(1.0, highest)
    return tuple(
        FoundPassage(one.text, one.title, one.source, None if one.score is None else max(0.0, one.score / unit))
        for one in found
    )


def clean(text: str) -> str:
    """Without half characters, which no request could carry."""
    return text.encode("utf-8", "replace").decode().strip()
