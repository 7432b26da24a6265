"""`/mcp`: contexts for MCP clients. Only `server` and `documents` import the `mcp` package; they are imported late."""
