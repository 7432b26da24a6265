"""Every provider that litellm knows, behind OpenAI's wire format."""

import asyncio
import importlib
import logging
import os
from typing import Any, Final

from gateway.domain.upstream import UpstreamReply, UpstreamRequest
from gateway.errors import InvalidRequest, UpstreamTimeout
from gateway.settings import UpstreamSettings
from gateway.upstreams.litellm.fields import read_capabilities, select_fields
from gateway.upstreams.litellm.library import LitellmLibrary
from gateway.upstreams.litellm.stream import LitellmStream, convert_completion
from gateway.upstreams.replies import build_error_reply, build_json_reply

log = logging.getLogger(__name__)

OWN_HEADERS: Final = frozenset({"accept", "accept-encoding", "content-length", "content-type", "host", "user-agent"})

# Read by litellm while it is being imported: no download of price lists and header tables, no .env file.
IMPORT_ENVIRONMENT: Final = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_MODE": "PRODUCTION",
}


class LitellmUpstream:
    """One provider through litellm, which is imported when it is first needed."""

    def __init__(self, name: str, settings: UpstreamSettings) -> None:
        self.name = name
        self.capabilities = read_capabilities(settings)
        self.passes_bearer = settings.pass_bearer
        self._settings = settings
        self._library: LitellmLibrary | None = None

    async def prepare(self) -> None:
        """Import litellm in a thread, so that the first request does not wait for it."""
        await self._load_library()

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        if request.path.partition("?")[0] != "/chat/completions":
            return build_error_reply(
                404, f"The upstream {self.name} has no endpoint {request.path}.", code="unknown_url"
            )
        if self.passes_bearer and not request.bearer:
            # Without this litellm would look for the operator's key in the environment.
            return build_error_reply(401, "Send the provider's key as the bearer token.", code="invalid_api_key")
        try:
            fields = select_fields(request.body, self._settings.model or "*")
        except InvalidRequest as fault:
            return build_error_reply(400, fault.message, param=fault.param)
        if fields.omitted:
            log.warning("upstream %s: fields not forwarded: %s", self.name, ", ".join(fields.omitted))
        library = await self._load_library()
        arguments = fields.forwarded | self._build_own_fields(library, request)
        return await self._complete(library, arguments, request.bearer)

    async def list_models(self, bearer: str | None = None) -> list[dict[str, Any]]:
        model = self._settings.model or "*"
        return [] if "*" in model else [{"id": model, "object": "model", "created": 0, "owned_by": self.name}]

    async def close(self) -> None:
        if self._library:
            await self._library.litellm.close_litellm_async_clients()

    async def _load_library(self) -> LitellmLibrary:
        if self._library is None:
            self._library = await asyncio.to_thread(load_litellm)
        return self._library

    async def _complete(self, library: LitellmLibrary, arguments: dict[str, Any], bearer: str | None) -> UpstreamReply:
        secrets = [secret for secret in (self._settings.api_key, bearer, *self._settings.headers.values()) if secret]
        try:
            async with asyncio.timeout(self._settings.timeouts.first_byte):
                answer = await library.litellm.acompletion(**arguments)
                if not arguments["stream"]:
                    return build_json_reply(convert_completion(answer))
                stream = LitellmStream(library, answer, self._settings.timeouts.idle)
                await stream.wait_for_first_chunk()
                return stream
        except TimeoutError as fault:
            raise UpstreamTimeout(f"The upstream {self.name} did not answer in time.") from fault
        except library.error as fault:
            return library.translate_failure(fault, secrets)

    def _build_own_fields(self, library: LitellmLibrary, request: UpstreamRequest) -> dict[str, Any]:
        """What the operator configures and no request can change."""
        settings = self._settings
        forwarded = {name: value for name, value in request.headers if name.lower() not in OWN_HEADERS}
        read_timeout = max(settings.timeouts.first_byte, settings.timeouts.idle)
        return {
            "api_base": settings.base_url,
            "api_key": request.bearer if self.passes_bearer else settings.api_key,
            "extra_headers": forwarded | settings.headers,
            "timeout": library.build_timeout(settings.timeouts.connect, read_timeout),
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": False,  # a parameter that the provider lacks is an error, not a silent change
            "_skip_mcp_handler": True,  # it needs another package; tools belong to the client and the gateway
        }


def load_litellm() -> LitellmLibrary:
    """Import litellm, which takes seconds: call it in a thread."""
    # The one place besides settings_loader.py that touches the environment: litellm has no other switch for these.
    os.environ.update(IMPORT_ENVIRONMENT)
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True  # it prints to stdout otherwise
    litellm.user_url_validation = True  # it fetches images that a request names; never from private addresses
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)  # its lines quote requests
    return LitellmLibrary(litellm, importlib.import_module("httpx"), importlib.import_module("openai").OpenAIError)
