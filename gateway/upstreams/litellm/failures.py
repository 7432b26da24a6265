"""What litellm's exceptions mean to the gateway: told by class, never by message."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from gateway.errors import UpstreamError, UpstreamInvalid, UpstreamTimeout, UpstreamTruncated, UpstreamUnreachable
from gateway.upstreams.replies import JSON, MemoryReply, error_reply

# By class, most special first; the classes are litellm's own.
STATUS: Final = (
    ("AuthenticationError", 401),
    ("PermissionDeniedError", 401),
    ("RateLimitError", 429),
    ("NotFoundError", 404),
    ("UnprocessableEntityError", 422),
    ("BadRequestError", 400),
    ("ServiceUnavailableError", 503),
    ("BadGatewayError", 502),
    ("InternalServerError", 500),
)
MESSAGE: Final = 2_000  # characters of a provider's message that are passed on


@dataclass(frozen=True, slots=True)
class LitellmFailures:
    """litellm, imported, and what is needed to understand it."""

    litellm: Any
    httpx: Any
    failure: type[Exception]  # the root of everything that litellm raises on purpose

    def timeout(self, connect: float, silence: float) -> Any:
        return self.httpx.Timeout(silence, connect=connect)

    def failed(self, fault: Exception, secrets: Iterable[str]) -> MemoryReply:
        """A failed call as the provider's reply; raises UpstreamError where the provider gave none."""
        origin = self._origin(fault)
        self._raise_transport(fault)
        status, headers = self._status(origin), getattr(origin, "litellm_response_headers", None) or {}
        # litellm reports what it could not make sense of as an error 500 as well, one that nobody sent.
        sent = bool(headers) or self._caused_by(fault, self.httpx.HTTPStatusError)
        if status is None or (status >= 500 and not sent):
            raise UpstreamInvalid("The provider's answer could not be understood.") from fault
        kept = {"retry-after": headers["retry-after"]} if "retry-after" in headers else {}
        return error_reply(status, _message(origin, secrets), headers=JSON | kept)

    def broken(self, fault: Exception) -> UpstreamError:
        """What a failure in the middle of a stream is."""
        if self._timed_out(fault):
            return UpstreamTimeout("The provider fell silent in the middle of its answer.")
        return UpstreamTruncated("The provider's answer broke off.")

    def _raise_transport(self, fault: Exception) -> None:
        """Raise if no answer came at all: litellm reports that as the provider's error 500."""
        if self._caused_by(fault, (self.httpx.ConnectError, self.httpx.ConnectTimeout)):
            raise UpstreamUnreachable("The provider cannot be reached.") from fault
        if self._timed_out(fault):
            raise UpstreamTimeout("The provider did not answer in time.") from fault
        if self._caused_by(fault, self.httpx.TransportError):
            raise UpstreamUnreachable("The provider closed the connection without an answer.") from fault

    def _timed_out(self, fault: Exception) -> bool:
        return self._caused_by(fault, (self.httpx.TimeoutException, self.litellm.Timeout))

    def _status(self, fault: Exception) -> int | None:
        for name, status in STATUS:
            if isinstance(fault, getattr(self.litellm, name)):
                return status
        # litellm also wraps whatever it did not expect in an APIConnectionError: that is no answer of the provider.
        known = isinstance(fault, self.litellm.APIError) and not isinstance(fault, self.litellm.APIConnectionError)
        return int(getattr(fault, "status_code", 502)) if known else None

    def _origin(self, fault: Exception) -> Exception:
        wrapped = isinstance(fault, self.litellm.exceptions.MidStreamFallbackError)
        inner: Exception | None = getattr(fault, "original_exception", None) if wrapped else None
        return inner or fault

    def _caused_by(self, fault: Exception, kinds: Any) -> bool:
        return any(isinstance(cause, kinds) for cause in _causes(fault))


def _causes(fault: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while fault is not None and id(fault) not in seen:
        yield fault
        seen.add(id(fault))
        fault = fault.__cause__ or fault.__context__


def _message(fault: Exception, secrets: Iterable[str]) -> str:
    message = str(getattr(fault, "message", fault))
    for secret in secrets:
        message = message.replace(secret, "[secret]")
    return message[:MESSAGE]
