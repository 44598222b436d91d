"""Strategies of kaosmem as those of Agent Framework."""

from __future__ import annotations

from agent_framework import EXCLUDED_KEY, Message

from kaosmem.compaction import CompactionStrategy
from kaosmem.integrations.agent_framework.messages import read_message, write_message


class KaosmemCompaction:
    """A strategy of kaosmem as a `CompactionStrategy` of Agent Framework.

    A message that the strategy leaves out leaves the list, and one that it shortens is replaced.
    The messages themselves stay as they are, and so does a history that holds them.

    Args:
        strategy: A strategy of `kaosmem.compaction`.
    """

    def __init__(self, strategy: CompactionStrategy) -> None:
        self.strategy = strategy

    async def __call__(self, messages: list[Message]) -> bool:
        """Shorten a list of messages in place. Return whether it has changed."""
        excluded = [each for each in messages if each.additional_properties.get(EXCLUDED_KEY)]
        shown = [each for each in messages if not each.additional_properties.get(EXCLUDED_KEY)]
        history = [read_message(message)[0] for message in shown]
        given = dict(zip(map(id, history), shown, strict=True))
        left = await self.strategy.compact(history)
        messages[:] = [*excluded, *(given.get(id(said)) or write_message(said) for said in left)]
        return given.keys() != {id(said) for said in left}
