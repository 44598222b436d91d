"""How far a text is trusted."""

from __future__ import annotations

from enum import IntEnum

from kaosmem.types.content import Content, ToolResultBlock


class Trust(IntEnum):
    """Where a text comes from, least trusted first."""

    EXTERNAL = 0
    TOOL = 1
    MODEL = 2
    USER = 3
    APPLICATION = 4


_ROLE_TRUST = {"system": Trust.APPLICATION, "user": Trust.USER, "assistant": Trust.MODEL, "tool": Trust.TOOL}


def trust_of(role: str, content: Content) -> Trust:
    """Return what the role says, but no more than a tool's where a tool's result is in it, whoever handed it over."""
    of_role = _ROLE_TRUST.get(role, Trust.MODEL)
    holds_results = not isinstance(content, str) and any(isinstance(block, ToolResultBlock) for block in content)
    return min(of_role, Trust.TOOL) if holds_results else of_role
