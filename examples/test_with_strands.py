"""Strands: an agent whose session outlives the process, within a budget."""

from pathlib import Path

import pytest
from strands import Agent
from strands.models import Model

from kaosmem.integrations.strands import KaosmemPlugin


class ScriptedModel(Model):
    """Says how many messages it got."""

    update_config = get_config = structured_output = None

    async def stream(self, messages: list, *_: object, **__: object):
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": f"Seen: {len(messages)}."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


@pytest.mark.frameworks
async def test_an_agent_of_strands(tmp_path: Path) -> None:
    """The session has what the agent said, also for another agent."""
    kept = KaosmemPlugin(tmp_path, conversation="deal-42", budget=8_000)
    agent = Agent(model=ScriptedModel(), plugins=[kept], callback_handler=None)
    assert str(await agent.invoke_async("How long is the notice?")).strip() == "Seen: 1."
    assert str(await agent.invoke_async("How?")).strip() == "Seen: 3."
