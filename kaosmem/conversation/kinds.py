"""Kinds of events with a meaning here; a log may have any other."""

from __future__ import annotations

ACTION_KINDS = (
    "browse",
    "delegate",
    "file_edit",
    "file_read",
    "mcp_call",
    "message",
    "notebook_cell",
    "null",
    "recall_request",
    "shell_command",
    "system_message",
    "think",
    "tool_call",
)
OBSERVATION_KINDS = ("agent_state", "browser_output", "error", "knowledge", "rejection", "result", "workspace")

SPOKEN_KINDS = frozenset({"message", "system_message", "think"})
"""Actions that need no label. Any other action of somebody else than the agent is shown with its kind."""
HIDDEN_KINDS = frozenset({"null", "recall_request", "agent_state"})
"""The kinds that no model is shown."""
ERROR_KINDS = frozenset({"error", "rejection"})
"""Observations that say that something failed."""
