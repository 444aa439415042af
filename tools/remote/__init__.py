"""Tools that answer elsewhere, named by configuration alone: MCP servers and HTTP endpoints."""
