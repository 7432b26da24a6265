"""The error tree. `status`, `code` and `kind` are class facts; edge/errors.py renders them.

GatewayError
├── InvalidRequest 400 ── InvalidJson, UnknownAlias, AgentConflict, AgentRequired, ModelRequired, MissingVariable,
│                         SessionRequired, PreviousResponseNotFound
├── InvalidApiKey 401 ── MissingApiKey
├── Forbidden 403 ── UserNotAllowed, ForbiddenHost, InvalidCsrfToken, ModelNotAllowed, ContextRequired, QuotaExceeded,
│                    ObjectNotAllowed
├── UnknownEndpoint 404    ├── NotFound 404    ├── ModelNotFound 404    ├── MethodNotAllowed 405
├── RequestTimeout 408     ├── Conflict 409           ├── PreconditionFailed 412
├── BodyTooLarge 413       ├── UnsupportedMediaType 415   ├── InvalidObject 422
├── RateLimited 429 ── WorkspaceBusy   ├── HeadersTooLarge 431    ├── EndpointUnavailable 501
├── ServiceUnavailable 503 ── StoreUnavailable, UpstreamDisabled   ├── InsufficientStorage 507
└── UpstreamError 502 ── UpstreamUnreachable, UpstreamInvalid, UpstreamAuth, LoopLimit, UpstreamTimeout (504),
                         UpstreamRateLimited (429)
"""

import difflib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec

QUOTED = 80  # characters of somebody's text that a message repeats
COMPARED_LENGTH = 80  # characters up to which words are compared: difflib takes quadratic time
COMPARED_WORDS = 100  # known words that an unknown one is compared with
MOST_KNOWN = 20_000  # known words, from the first on, among which these are chosen; there may be any number
SIMILAR = 0.5  # difflib's ratio from which words are similar


def quote(text: str) -> str:
    """A text in quotes as messages have it, cut if it is long."""
    return repr(shorten(text))


def shorten(text: str) -> str:
    """The beginning of a text."""
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}…"


def find_similar(word: str, known: Iterable[str], most: int) -> list[str]:
    """The known words that are most similar to a misspelt one, best first; none for a very long one."""
    if len(word) > COMPARED_LENGTH:
        return []
    words = [name for name in islice(known, MOST_KNOWN) if len(name) <= COMPARED_LENGTH]
    if len(words) > COMPARED_WORDS:
        words = _find_neighbours(word, words)
    return difflib.get_close_matches(word, words, n=most, cutoff=SIMILAR)


def _find_neighbours(word: str, words: list[str]) -> list[str]:
    """Those that begin or end most like the word: its neighbours in alphabetical order, from the front and the back."""
    half = COMPARED_WORDS // 4
    forward, backward = sorted(words), sorted(name[::-1] for name in words)
    first, last = bisect_left(forward, word), bisect_left(backward, word[::-1])
    before = forward[max(0, first - half) : first + half]
    after = (name[::-1] for name in backward[max(0, last - half) : last + half])
    return list(dict.fromkeys([*before, *after]))


def describe_unknown(noun: str, alias: str, known: Iterable[str], hint: str = "") -> str:
    """That there is no such thing, with similar names that the caller may see, else a hint."""
    near = find_similar(alias, known, 3)
    hint = f" Did you mean {' or '.join(repr(name) for name in near)}?" if near else hint
    return f"There is no {noun} {quote(alias)}.{hint}"


class GatewayError(Exception):
    """An error that is reported to the client in OpenAI's format."""

    status = 500
    code = "internal_error"  # stable and documented
    kind = "server_error"

    retry_after: float | None = None  # seconds after which the client may retry
    is_lasting = False  # the same request would fail again: clients need not repeat it by themselves

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class InvalidRequest(GatewayError):
    status, code, kind = 400, "invalid_request", "invalid_request_error"


class ThreadUnsupported(InvalidRequest):
    code = "thread_unsupported_request"  # Anthropic's word: its clients send the whole conversation then


class InvalidJson(InvalidRequest):
    code = "invalid_json"


class AgentConflict(InvalidRequest):
    code = "agent_conflict"


class ModelRequired(InvalidRequest):
    code = "model_required"


class MissingVariable(InvalidRequest):
    code = "missing_variable"


class AgentRequired(InvalidRequest):
    code = "agent_required"


class ContentRequired(InvalidRequest):
    code = "content_required"


class ReferenceRequired(InvalidRequest):
    code = "reference_required"


class SessionRequired(InvalidRequest):
    code = "session_required"


class PreviousResponseNotFound(InvalidRequest):
    code = "previous_response_not_found"


class UnknownAlias(InvalidRequest):
    """An alias that does not exist; the message suggests similar ones that the caller may see."""

    def __init__(self, noun: str, alias: str, known: Iterable[str], *, param: str, hint: str = "") -> None:
        super().__init__(describe_unknown(noun, alias, known, hint), param=param)
        self.code = f"unknown_{noun}"


class InvalidApiKey(GatewayError):
    status, code, kind = 401, "invalid_api_key", "authentication_error"


class MissingApiKey(InvalidApiKey):
    """The request carries none; a browser may have signed in instead."""


class Forbidden(GatewayError):
    status, code, kind = 403, "forbidden", "permission_error"


class UserNotAllowed(Forbidden):
    code = "user_not_allowed"

    def __init__(self, *, param: str) -> None:
        super().__init__(
            "This caller may not act for users. That takes a key with `act_for_users`, or one of the configuration "
            "with `act_as_user` among its `rights`.",
            param=param,
        )


class ForbiddenHost(Forbidden):
    code = "forbidden_host"


class InvalidCsrfToken(Forbidden):
    code = "invalid_csrf_token"


class ModelNotAllowed(Forbidden):
    code = "model_not_allowed"


class ObjectNotAllowed(Forbidden):
    """A request names what an upstream keeps, and that may be another workspace's."""

    code = "object_not_allowed"


class ContextRequired(Forbidden):
    """The endpoint cannot carry the context that the caller must not go without."""

    code = "context_required"


class QuotaExceeded(Forbidden):
    """A workspace would have more of something than it may have."""

    code = "quota_exceeded"

    def __init__(self, quota: str, limit: int, used: int, wanted: int) -> None:
        super().__init__(
            f"The quota {quota} of this workspace is {limit}; {used} are used, and this would make it {wanted}. "
            "Delete something, or ask the operator for a higher quota.",
            param=quota,
        )
        self.quota, self.limit, self.used = quota, limit, used


class UnknownEndpoint(GatewayError):
    status, code, kind = 404, "unknown_endpoint", "invalid_request_error"


class NotFound(GatewayError):
    """No such object, or none that the caller may see: callers cannot tell the difference."""

    status, code, kind = 404, "not_found", "invalid_request_error"


class ModelNotFound(GatewayError):
    """No upstream serves a model, or none that the caller may see."""

    status, code, kind = 404, "model_not_found", "invalid_request_error"

    def __init__(self, model: str, known: Iterable[str], hint: str = "") -> None:
        super().__init__(describe_unknown("model", model, known, hint), param="model")


class MethodNotAllowed(GatewayError):
    status, code, kind = 405, "method_not_allowed", "invalid_request_error"

    def __init__(self, message: str, *, allow: str = "") -> None:
        super().__init__(message)
        self.allow = allow  # the methods that a path accepts, as its response has to say (RFC 9110 §15.5.6)


class RequestTimeout(GatewayError):
    status, code, kind = 408, "request_timeout", "invalid_request_error"


class FieldError(msgspec.Struct, frozen=True):
    """One fault in a request, with its place in the body or its query parameter."""

    pointer: str | None  # JSON pointer (RFC 6901)
    message: str
    parameter: str | None = None


class Conflict(GatewayError):
    """The request contradicts what is there; `faults` names the places in its body, if there are any."""

    status, code, kind = 409, "conflict", "invalid_request_error"

    def __init__(self, message: str, faults: Sequence[FieldError] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class PreconditionFailed(GatewayError):
    status, code, kind = 412, "precondition_failed", "invalid_request_error"


class BodyTooLarge(GatewayError):
    status, code, kind = 413, "request_too_large", "invalid_request_error"


class UnsupportedMediaType(GatewayError):
    status, code, kind = 415, "unsupported_media_type", "invalid_request_error"


class InvalidObject(GatewayError):
    """A well-formed request that fails validation; `faults` lists everything that is wrong with it."""

    status, code, kind = 422, "invalid", "invalid_request_error"

    def __init__(self, message: str, faults: Sequence[FieldError] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class RateLimited(GatewayError):
    status, code, kind = 429, "rate_limited", "rate_limit_error"


class WorkspaceBusy(RateLimited):
    """Too much work of one workspace is waiting; that of others is not affected."""

    code = "workspace_busy"
    retry_after = 1.0


class HeadersTooLarge(GatewayError):
    status, code, kind = 431, "headers_too_large", "invalid_request_error"


class EndpointUnavailable(GatewayError):
    status, code, kind = 501, "not_implemented", "invalid_request_error"
    is_lasting = True


class ServiceUnavailable(GatewayError):
    status, code, kind = 503, "unavailable", "server_error"


class UpstreamDisabled(ServiceUnavailable):
    """The upstream of a model has no key."""

    code = "upstream_disabled"
    is_lasting = True


class StoreUnavailable(ServiceUnavailable):
    code = "store_unavailable"
    retry_after = 1.0


class InsufficientStorage(GatewayError):
    status, code, kind = 507, "store_full", "server_error"


class UpstreamError(GatewayError):
    """The upstream failed; this is never shown as an assistant's message."""

    status, code, kind = 502, "upstream_invalid", "upstream_error"


class UpstreamUnreachable(UpstreamError):
    code = "upstream_unreachable"


class UpstreamInvalid(UpstreamError):
    code = "upstream_invalid"


class UpstreamTruncated(UpstreamInvalid):
    """The upstream's stream ended before it was complete."""


class UpstreamAuth(UpstreamError):
    code = "upstream_auth"
    is_lasting = True


class UpstreamRateLimited(UpstreamError):
    """The upstream has had enough requests for now, in the middle of an answer."""

    status, code, kind = 429, "upstream_rate_limited", "rate_limit_error"


class LoopLimit(UpstreamError):
    """The model used up its turns; to ask again costs as many."""

    code = "loop_limit"
    is_lasting = True


class UpstreamTimeout(UpstreamError):
    status, code = 504, "upstream_timeout"


INVALID_FAULT = "invalid"  # a value is wrong
ALIAS_FAULT = "alias"  # the name that an object has is wrong


class Fault(Exception):
    """One fault in a configuration or policy file, with its place."""

    def __init__(
        self,
        file: str,
        line: int,
        path: str,
        message: str,
        keys: tuple[str | int, ...] = (),
        code: str = INVALID_FAULT,
    ) -> None:
        super().__init__(f"{file}:{line}: {path}: {message}")
        self.file, self.line, self.path, self.message = file, line, path, message
        self.keys = keys  # the path to the value in the file
        self.code = code  # what kind of fault it is; messages are for people


class Faults(Exception):
    """All faults in a configuration or a policy set."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = faults


class StoreError(Exception):
    """A store operation failed; callers degrade or refuse, they never guess."""


class VersionConflict(StoreError):
    """The stored object has another version than a write expected; nothing was changed."""

    def __init__(self, key: tuple[str, str, str], actual: int) -> None:
        super().__init__(f"{key[1]} {key[2]!r} is at version {actual}.")
        self.key, self.actual = key, actual  # 0: there is no such object


class StoreFull(StoreError):
    """The store has no room for a write; reads still work."""


class CorruptStore(StoreError):
    """The store's file is damaged; it is never recreated silently."""
