"""A strategy that leaves out old tool calls with their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kaosmem.arguments import check_count, check_listed
from kaosmem.compaction.outline import Outline
from kaosmem.types import ChatMessage, ThinkingBlock, ToolResultBlock, ToolUseBlock


class SelectiveToolCallCompactionStrategy:
    """Leaves out tool calls with their results and their thinking, except the newest groups of them.

    A group is a unit with a call: a call and its results, or a parallel batch. Protected groups stay. The assistant's
        texts
    beside the calls stay too.
    Raises InvalidArgumentError.
    """

    def __init__(self, keep_recent_groups: int = 5) -> None:
        self.keep_recent_groups = check_count(keep_recent_groups, "keep_recent_groups")

    def __repr__(self) -> str:
        return f"SelectiveToolCallCompactionStrategy({self.keep_recent_groups})"

    async def compact(self, history: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return the history without old groups of calls. The other texts of a group take its place."""
        outline = Outline(check_listed(history, ChatMessage, "messages"))
        groups = [unit for unit in outline.units if any(outline.links[place].calls for place in unit)]
        groups.sort(key=lambda unit: unit[-1])
        old = groups[: max(0, len(groups) - self.keep_recent_groups)]
        left_out = {place for unit in old if unit[0] not in outline.protected for place in unit}
        if not left_out:
            return list(history)
        second_results = outline.orphans - outline.protected.keys()  # maybe of calls that are left out
        kept: list[ChatMessage] = []
        for place, message in enumerate(outline.messages):
            if place in left_out:
                kept += _said(message)
            elif place not in second_results:
                kept.append(message)
        return kept


def _said(message: ChatMessage) -> list[ChatMessage]:
    """Return a message without its calls, results and thinking. Its trust stays."""
    if isinstance(message.content, str):
        return [] if message.role == "tool" else [message]
    said = tuple(
        block for block in message.content if not isinstance(block, ToolUseBlock | ToolResultBlock | ThinkingBlock)
    )
    if said == message.content:
        return [message]
    has_calls = any(isinstance(block, ToolUseBlock) for block in message.content)
    # Whoever calls is shown as the assistant.
    role = "assistant" if has_calls else message.role
    alone = replace(message, role=role, content=said, trust=message.authority)
    return [alone] if alone.text.strip() else []
