"""The interface of a dialect as far as requests are concerned: where in a body things stand."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Raw

if TYPE_CHECKING:
    from gateway.domain.chat import ChatRequest, OutgoingBody
    from gateway.domain.injection import ClientTool, ClientTools, PlacedTexts, PlacementTarget
    from gateway.domain.search import Question


DialectName = Literal[
    "chat",  # OpenAI's chat completions
    "responses",  # OpenAI's responses
    "messages",  # Anthropic's messages
]
CALL_PATHS: Mapping[DialectName, str] = {  # below the address of an upstream
    "chat": "/chat/completions",
    "responses": "/responses",
    "messages": "/messages",
}


class RequestDialect(Protocol):
    """Reads a client's body and writes the outgoing one; everything else about requests is the same in all dialects.

    `messages` are the entries of a conversation as the dialect writes them, raw, without instructions that have a field
    of their own.
    """

    name: DialectName
    shaping_fields: frozenset[str]  # about tools: requests without them get what others of their scope do

    def decode(self, body: bytes) -> "ChatRequest":
        """The request; raises InvalidRequest for what the gateway has to look at and cannot read."""
        ...

    def check_messages(self, request: "ChatRequest") -> None:
        """Raise InvalidRequest for what upstreams would refuse, so that nothing is placed where no conversation is."""
        ...

    def find_question(self, messages: Sequence[Raw]) -> "Question | None":
        """The last user text with the ones before it; None if the user has said nothing."""
        ...

    def read_user_texts(self, messages: Sequence[Raw]) -> list[str]:
        """The texts of all user messages, oldest first; "" for one that has none."""
        ...

    def read_last_user_text(self, messages: Sequence[Raw]) -> str:
        """The text of the last user message, its text parts joined; "" if there is none."""
        ...

    def replace_user_text(self, messages: Sequence[Raw], text: str) -> list[Raw]:
        """The messages with `text` instead of the last user text; other parts (images, audio) stay."""
        ...

    def place(self, outgoing: "OutgoingBody", texts: "PlacedTexts", target: "PlacementTarget") -> None:
        """Put the texts, of which there are some, in their places (CONTRACT §3.2)."""
        ...

    def replace_developer_role(self, request: "ChatRequest", outgoing: "OutgoingBody") -> None:
        """Write system instead of developer, for upstreams that do not support that role."""
        ...

    def find_missing_defaults(self, request: "ChatRequest", defaults: Mapping[str, Any]) -> dict[str, Any]:
        """The fields to add for `temperature`, `top_p` and `max_tokens` where the request says nothing."""
        ...

    def encode(self, outgoing: "OutgoingBody") -> bytes:
        """The body of a single upstream call."""
        ...

    def read_client_tools(self, request: "ChatRequest") -> "ClientTools":
        """The client's tools; raises InvalidRequest if they are not a list of objects."""
        ...

    def may_register(self, request: "ChatRequest", client: "ClientTools") -> bool:
        """Whether our tools would change nothing that the client relies on (CONTRACT §3.4)."""
        ...

    def describe_tool(self, raw: Raw) -> "ClientTool":
        """A tool of the client as far as it can be compared with a question."""
        ...

    def find_called_names(self, messages: Sequence[Raw]) -> frozenset[str]:
        """The tools that the history calls."""
        ...
