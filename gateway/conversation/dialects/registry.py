"""The dialects that the gateway serves."""

from gateway.conversation.dialect import Dialect
from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.conversation.dialects.messages.dialect import MESSAGES
from gateway.conversation.dialects.responses.dialect import RESPONSES
from gateway.domain.dialect import DialectName

DIALECTS: dict[DialectName, Dialect] = {dialect.name: dialect for dialect in (CHAT, RESPONSES, MESSAGES)}
