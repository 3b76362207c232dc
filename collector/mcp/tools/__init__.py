"""The tools of the MCP server, by their subject."""
