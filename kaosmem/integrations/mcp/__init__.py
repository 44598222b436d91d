"""A session as a server of the Model Context Protocol. It needs the extra `mcp`."""

from kaosmem.errors import MissingExtraError

try:
    import mcp  # noqa: F401
except ModuleNotFoundError:
    raise MissingExtraError(
        "the MCP server needs the extra 'mcp': pip install 'kaosmem[mcp]'"
    ) from None

from kaosmem.integrations.mcp.server import memory_server

__all__ = ["memory_server"]
