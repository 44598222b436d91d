"""Trust levels of texts."""

from __future__ import annotations

from enum import IntEnum

from kaosmem.types.content import Content, ToolResultBlock


class Trust(IntEnum):
    """The origin of a text, least trusted first."""

    EXTERNAL = 0
    TOOL = 1
    MODEL = 2
    USER = 3
    APPLICATION = 4


_ROLE_TRUST = {"system": Trust.APPLICATION, "user": Trust.USER, "assistant": Trust.MODEL, "tool": Trust.TOOL}


def trust_of(role: str, content: Content) -> Trust:
    """Return the trust of a role. A message with a tool's result has at most the trust of a tool."""
    of_role = _ROLE_TRUST.get(role, Trust.MODEL)
    holds_results = not isinstance(content, str) and any(isinstance(block, ToolResultBlock) for block in content)
    return min(of_role, Trust.TOOL) if holds_results else of_role
