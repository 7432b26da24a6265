"""MCP over this process's standard input and output, answered from policies that are read here."""

from gateway.app import Gateway
from gateway.commands.mcp_relay import serve_stdio
from gateway.domain.exchange import Exchange, HeaderBytes
from gateway.domain.principal import Principal
from gateway.edge.mcp.call import McpCall
from gateway.edge.mcp.server import McpHandlers, build_server
from gateway.edge.recorder import RequestOutcome
from gateway.ids import IdSource
from gateway.settings import Settings


async def serve_policies(settings: Settings, principal: Principal, headers: HeaderBytes) -> None:
    """Answer from the configured policies, which are followed as they change, until the input ends."""
    gateway, ids = await Gateway.open(settings), IdSource()

    def make_call(_: object) -> McpCall:
        snapshot = gateway.policies.get_snapshot(principal.workspace)
        return McpCall(Exchange(ids.make(), principal, snapshot, headers), RequestOutcome("mcp"))

    async with gateway.running():
        await serve_stdio(build_server(McpHandlers(gateway.pipeline, make_call, gateway.metrics.count_tool_run)))
