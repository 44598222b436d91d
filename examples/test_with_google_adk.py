"""Google ADK: an agent whose session outlives the process, within a budget."""

from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from kaosmem.integrations.google_adk import KaosmemPlugin


class _SeenModel(BaseLlm):
    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
        yield LlmResponse(content=types.ModelContent(f"Seen: {len(llm_request.contents)}."))


@pytest.mark.frameworks
@pytest.mark.filterwarnings("ignore")  # Google ADK uses deprecated parts of its own.
async def test_an_agent_of_google_adk(tmp_path: Path) -> None:
    """Each runner is a new one with an empty session: kaosmem has the earlier messages."""
    agent = LlmAgent(name="analyst", model=_SeenModel(model="scripted"))
    for question, answer in (("How long is the notice?", "Seen: 1."), ("How?", "Seen: 3.")):
        plugins = [KaosmemPlugin(tmp_path, budget=8_000)]
        runner = InMemoryRunner(agent, app_name="app", plugins=plugins)
        events = await runner.run_debug(question, session_id="deal-42", quiet=True)
        assert events[-1].content.parts[0].text == answer
