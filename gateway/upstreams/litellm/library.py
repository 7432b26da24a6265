"""The imported litellm, and what its exceptions mean to the gateway: judged by class, never by message."""

import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from gateway.domain.price import MILLION, ModelPrice
from gateway.errors import UpstreamError, UpstreamInvalid, UpstreamTimeout, UpstreamTruncated, UpstreamUnreachable
from gateway.redaction import Redactor
from gateway.upstreams.replies import JSON_HEADERS, MemoryReply, build_error_reply

# Most specific first; the classes are litellm's own.
STATUS_BY_CLASS: Final = (
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
MAX_MESSAGE_CHARACTERS: Final = 2_000  # characters of a provider's message that are passed on


class LitellmLibrary(msgspec.Struct, frozen=True):
    """litellm with the modules whose classes its exceptions use."""

    litellm: Any
    httpx: Any
    error: type[Exception]  # the base class of everything that litellm raises on purpose

    def build_timeout(self, connect: float, silence: float) -> Any:
        return self.httpx.Timeout(silence, connect=connect)

    def translate_failure(self, fault: Exception, secrets: Iterable[str]) -> MemoryReply:
        """A failed call as the provider's reply; raises UpstreamError if the provider sent none."""
        origin = self._unwrap(fault)
        self._raise_if_unanswered(fault)
        status, headers = self._find_status(origin), getattr(origin, "litellm_response_headers", None) or {}
        # litellm also reports what it could not understand as an error 500, which nobody sent.
        sent = bool(headers) or self._is_caused_by(fault, self.httpx.HTTPStatusError)
        if status is None or (status >= 500 and not sent):
            raise UpstreamInvalid("The provider's answer could not be understood.") from fault
        kept = {"retry-after": headers["retry-after"]} if "retry-after" in headers else {}
        return build_error_reply(status, _format_message(origin, secrets), headers=JSON_HEADERS | kept)

    def translate_interruption(self, fault: Exception) -> UpstreamError:
        """The error for a failure in the middle of a stream."""
        if self._is_timeout(fault):
            return UpstreamTimeout("The provider fell silent in the middle of its answer.")
        return UpstreamTruncated("The provider's answer broke off.")

    def _raise_if_unanswered(self, fault: Exception) -> None:
        """Raise if no answer came at all: litellm reports that as an error 500 of the provider."""
        if self._is_caused_by(fault, (self.httpx.ConnectError, self.httpx.ConnectTimeout)):
            raise UpstreamUnreachable("The provider cannot be reached.") from fault
        if self._is_timeout(fault):
            raise UpstreamTimeout("The provider did not answer in time.") from fault
        if self._is_caused_by(fault, self.httpx.TransportError):
            raise UpstreamUnreachable("The provider closed the connection without an answer.") from fault

    def _is_timeout(self, fault: Exception) -> bool:
        return self._is_caused_by(fault, (self.httpx.TimeoutException, self.litellm.Timeout))

    def _find_status(self, fault: Exception) -> int | None:
        for name, status in STATUS_BY_CLASS:
            if isinstance(fault, getattr(self.litellm, name)):
                return status
        # litellm also wraps whatever it did not expect in an APIConnectionError: that is no answer of the provider.
        known = isinstance(fault, self.litellm.APIError) and not isinstance(fault, self.litellm.APIConnectionError)
        return int(getattr(fault, "status_code", 502)) if known else None

    def _unwrap(self, fault: Exception) -> Exception:
        wrapped = isinstance(fault, self.litellm.exceptions.MidStreamFallbackError)
        inner: Exception | None = getattr(fault, "original_exception", None) if wrapped else None
        return inner or fault

    def _is_caused_by(self, fault: Exception, kinds: Any) -> bool:
        return any(isinstance(cause, kinds) for cause in _iterate_causes(fault))


def find_listed_price(model: str) -> ModelPrice | None:
    """What litellm's own table says, if litellm is loaded already; it is not loaded for this."""
    library = sys.modules.get("litellm")
    if library is None:
        return None
    table = getattr(library, "model_cost", None)
    listed = table.get(model) if isinstance(table, dict) else None
    if not isinstance(listed, dict):
        return None
    names = ("input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost")
    prices: list[Any] = [listed.get(name) for name in names]
    per_million = [price * MILLION if isinstance(price, int | float) else None for price in prices]
    if per_million[0] is None or per_million[1] is None:
        return None
    return ModelPrice(per_million[0], per_million[1], per_million[2])


def _iterate_causes(fault: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while fault is not None and id(fault) not in seen:
        yield fault
        seen.add(id(fault))
        fault = fault.__cause__ or fault.__context__


def _format_message(fault: Exception, secrets: Iterable[str]) -> str:
    message = str(getattr(fault, "message", fault))
    return Redactor(secrets).redact(message)[:MAX_MESSAGE_CHARACTERS]
