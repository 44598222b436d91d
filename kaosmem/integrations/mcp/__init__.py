"""A session as a server of the Model Context Protocol. It needs the extra `mcp`."""

from kaosmem.errors import needs_extra

with needs_extra("mcp"):
    from kaosmem.integrations.mcp.server import memory_server

__all__ = ["memory_server"]
