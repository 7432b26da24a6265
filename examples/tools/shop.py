"""The tools of a small shop as an MCP server over stdio; the gateway starts it."""

from mcp.server.mcpserver import MCPServer

ORDERS = {"17": "packed, leaves today", "18": "delivered on Monday"}

shop = MCPServer("shop")


@shop.tool()
def order_status(number: str) -> str:
    """Where an order is: packed, on its way or delivered."""
    return ORDERS.get(number, "There is no such order.")


@shop.tool()
def cancel_order(number: str) -> str:
    """Cancel an order that has not left yet."""
    return f"Order {number} is cancelled."


if __name__ == "__main__":
    shop.run()
