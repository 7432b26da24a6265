"""What the gateway's MCP server calls itself."""

from gateway.injection.tools import PLAIN_TOOLS

NAME, TITLE = "context-gateway", "Context Gateway"
INSTRUCTIONS = (
    "Guidance and reference material for the tasks of this workspace. Read resources that are marked as required "
    f"before you answer; find others with {PLAIN_TOOLS.list} and read them with {PLAIN_TOOLS.get}."
)
