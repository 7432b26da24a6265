"""Every provider that litellm knows, behind OpenAI's wire format."""

import asyncio
import importlib
import logging
import os
from typing import Any, Final

from gateway.domain.upstream import UpstreamReply, UpstreamRequest
from gateway.errors import InvalidRequest, UpstreamTimeout
from gateway.settings import UpstreamSettings
from gateway.upstreams.litellm.failures import LitellmFailures
from gateway.upstreams.litellm.fields import capabilities, chat_fields
from gateway.upstreams.litellm.stream import LitellmStream, completion_document
from gateway.upstreams.replies import error_reply, json_reply

LOG: Final = logging.getLogger(__name__)
OWN_HEADERS: Final = frozenset({"accept", "accept-encoding", "content-length", "content-type", "host", "user-agent"})

# Read by litellm while it is being imported: no download of price lists and header tables, no stray .env file.
AT_IMPORT: Final = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_MODE": "PRODUCTION",
}


class LitellmUpstream:
    """One provider through litellm, which is imported when it is first needed."""

    def __init__(self, name: str, settings: UpstreamSettings) -> None:
        self.name = name
        self.can = capabilities(settings)
        self.passes_bearer = settings.pass_bearer
        self._settings = settings
        self._library: LitellmFailures | None = None

    async def prepare(self) -> None:
        """Import litellm in a thread, so that the first request does not wait for it."""
        await self._ready()

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        if request.path != "/chat/completions":
            return error_reply(404, f"The upstream {self.name} has no endpoint {request.path}.", code="unknown_url")
        if self.passes_bearer and not request.bearer:
            # Without this litellm would look for a key of the operator's in the environment.
            return error_reply(401, "Send the provider's key as bearer.", code="invalid_api_key")
        try:
            fields, left_out = chat_fields(request.body, self._settings.model or "*")
        except InvalidRequest as fault:
            return error_reply(400, fault.message, param=fault.param)
        if left_out:
            LOG.warning("upstream %s: fields not forwarded: %s", self.name, ", ".join(left_out))
        library = await self._ready()
        return await self._call(library, fields | self._own_fields(library, request), request.bearer)

    async def models(self) -> list[dict[str, Any]]:
        model = self._settings.model or "*"
        return [] if "*" in model else [{"id": model, "object": "model", "created": 0, "owned_by": self.name}]

    async def close(self) -> None:
        if self._library:
            await self._library.litellm.close_litellm_async_clients()

    async def _ready(self) -> LitellmFailures:
        if self._library is None:
            self._library = await asyncio.to_thread(load)
        return self._library

    async def _call(self, library: LitellmFailures, call: dict[str, Any], bearer: str | None) -> UpstreamReply:
        secrets = [secret for secret in (self._settings.api_key, bearer, *self._settings.headers.values()) if secret]
        try:
            async with asyncio.timeout(self._settings.timeouts.first_byte):
                answer = await library.litellm.acompletion(**call)
                if not call["stream"]:
                    return json_reply(completion_document(answer))
                return await LitellmStream(library, answer, self._settings.timeouts.idle).started()
        except TimeoutError as fault:
            raise UpstreamTimeout(f"The upstream {self.name} did not answer in time.") from fault
        except library.failure as fault:
            return library.failed(fault, secrets)

    def _own_fields(self, library: LitellmFailures, request: UpstreamRequest) -> dict[str, Any]:
        """What the operator decides and no request can."""
        settings = self._settings
        forwarded = {name: value for name, value in request.headers if name.lower() not in OWN_HEADERS}
        silence = max(settings.timeouts.first_byte, settings.timeouts.idle)
        return {
            "api_base": settings.base_url,
            "api_key": request.bearer if self.passes_bearer else settings.api_key,
            "extra_headers": forwarded | settings.headers,
            "timeout": library.timeout(settings.timeouts.connect, silence),
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": False,  # a parameter that the provider lacks is an error, not a silent change
            "_skip_mcp_handler": True,  # tools belong to the client and the gateway; needs a package otherwise
        }


def load() -> LitellmFailures:
    """Import litellm, which takes seconds: call it in a thread."""
    # The one place besides settings.py that touches the environment: litellm has no other switch for these.
    os.environ.update(AT_IMPORT)
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True  # it prints to stdout otherwise
    litellm.user_url_validation = True  # it fetches pictures that a request names; never from private addresses
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)  # its lines quote requests
    return LitellmFailures(litellm, importlib.import_module("httpx"), importlib.import_module("openai").OpenAIError)
