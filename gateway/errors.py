"""The error tree. `status`, `code` and `kind` are class facts; edge/errors.py renders them.

GatewayError
├── InvalidRequest 400 ── InvalidJson, Unknown, AgentConflict, ModelRequired, MissingVariable
├── InvalidApiKey 401      ├── Forbidden 403 ── UserNotAllowed, ForbiddenHost
├── UnknownEndpoint 404    ├── NotFound 404           ├── MethodNotAllowed 405
├── RequestTimeout 408     ├── Conflict 409           ├── PreconditionFailed 412
├── TooLarge 413           ├── UnsupportedMedia 415   ├── Invalid 422
├── RateLimited 429        ├── HeadersTooLarge 431    ├── NotBuilt 501
├── Unavailable 503 ── StoreUnavailable               ├── InsufficientStorage 507
└── UpstreamError 502 ── UpstreamUnreachable, UpstreamInvalid, UpstreamAuth, LoopLimit, UpstreamTimeout (504)
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


class GatewayError(Exception):
    """Something a client is told in OpenAI's error shape."""

    status = 500
    code = "internal_error"  # stable and documented
    kind = "server_error"

    retry_after: float | None = None  # seconds after which trying again makes sense

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class InvalidRequest(GatewayError):
    status, code, kind = 400, "invalid_request", "invalid_request_error"


class InvalidJson(InvalidRequest):
    code = "invalid_json"


class AgentConflict(InvalidRequest):
    code = "agent_conflict"


class ModelRequired(InvalidRequest):
    code = "model_required"


class MissingVariable(InvalidRequest):
    code = "missing_variable"


class UnknownAlias(InvalidRequest):
    """An alias that nothing answers to; names the nearest ones that the caller may see."""

    def __init__(self, noun: str, alias: str, known: Iterable[str], *, param: str) -> None:
        near = difflib.get_close_matches(alias, list(known), n=3, cutoff=0.5)
        hint = f" Did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
        super().__init__(f"There is no {noun} {alias!r}.{hint}", param=param)
        self.code = f"unknown_{noun}"


class InvalidApiKey(GatewayError):
    status, code, kind = 401, "invalid_api_key", "authentication_error"


class Forbidden(GatewayError):
    status, code, kind = 403, "forbidden", "permission_error"


class UserNotAllowed(Forbidden):
    code = "user_not_allowed"


class ForbiddenHost(Forbidden):
    code = "forbidden_host"


class UnknownEndpoint(GatewayError):
    status, code, kind = 404, "unknown_endpoint", "invalid_request_error"


class NotFound(GatewayError):
    """No such object, or none that the caller may see: the two are not told apart."""

    status, code, kind = 404, "not_found", "invalid_request_error"


class MethodNotAllowed(GatewayError):
    status, code, kind = 405, "method_not_allowed", "invalid_request_error"


class RequestTimeout(GatewayError):
    status, code, kind = 408, "request_timeout", "invalid_request_error"


class Conflict(GatewayError):
    status, code, kind = 409, "conflict", "invalid_request_error"


class PreconditionFailed(GatewayError):
    status, code, kind = 412, "precondition_failed", "invalid_request_error"


class BodyTooLarge(GatewayError):
    status, code, kind = 413, "request_too_large", "invalid_request_error"


class UnsupportedMediaType(GatewayError):
    status, code, kind = 415, "unsupported_media_type", "invalid_request_error"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with a request: where in the body, or in which query parameter."""

    pointer: str | None  # JSON pointer (RFC 6901)
    message: str
    parameter: str | None = None


class InvalidObject(GatewayError):
    """A request that can be read but not accepted; `faults` has everything that is wrong with it."""

    status, code, kind = 422, "invalid", "invalid_request_error"

    def __init__(self, message: str, faults: Sequence[FieldError] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class RateLimited(GatewayError):
    status, code, kind = 429, "rate_limited", "rate_limit_error"


class HeadersTooLarge(GatewayError):
    status, code, kind = 431, "headers_too_large", "invalid_request_error"


class EndpointUnavailable(GatewayError):
    status, code, kind = 501, "not_implemented", "invalid_request_error"


class ServiceUnavailable(GatewayError):
    status, code, kind = 503, "unavailable", "server_error"


class StoreUnavailable(ServiceUnavailable):
    code = "store_unavailable"
    retry_after = 1.0


class InsufficientStorage(GatewayError):
    status, code, kind = 507, "store_full", "server_error"


class UpstreamError(GatewayError):
    """The upstream could not be used; never shown as an assistant's message."""

    status, code, kind = 502, "upstream_invalid", "upstream_error"


class UpstreamUnreachable(UpstreamError):
    code = "upstream_unreachable"


class UpstreamInvalid(UpstreamError):
    code = "upstream_invalid"


class UpstreamTruncated(UpstreamInvalid):
    """The upstream's stream broke off before it was complete."""


class UpstreamAuth(UpstreamError):
    code = "upstream_auth"


class LoopLimit(UpstreamError):
    code = "loop_limit"


class UpstreamTimeout(UpstreamError):
    status, code = 504, "upstream_timeout"


class Fault(Exception):
    """One thing wrong in a file that a person wrote, with the place to look at."""

    def __init__(self, file: str, line: int, path: str, message: str, keys: tuple[str | int, ...] = ()) -> None:
        super().__init__(f"{file}:{line}: {path}: {message}")
        self.file, self.line, self.path, self.message = file, line, path, message
        self.keys = keys  # the way to the value, where the file has an inside


class Faults(Exception):
    """Everything wrong in a configuration or a policy set, all at once."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = faults


class StoreError(Exception):
    """A store could not do what was asked; callers degrade or refuse, they never guess."""


class VersionConflict(StoreError):
    """A write expected another version of an object than the store holds; nothing was changed."""

    def __init__(self, key: tuple[str, str, str], actual: int) -> None:
        super().__init__(f"{key[1]} {key[2]!r} is at version {actual}.")
        self.key, self.actual = key, actual  # 0: there is no such object


class StoreFull(StoreError):
    """There is no room for what should be written; what is there can still be read."""


class CorruptStore(StoreError):
    """The store's file is damaged; it is never recreated silently."""
