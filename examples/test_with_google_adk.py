"""Google ADK: an agent whose session outlives the process, within a budget."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from kaosmem.integrations.google_adk import KaosmemPlugin

# Google ADK uses deprecated parts of its own.
pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]


class ScriptedModel(BaseLlm):
    """Says how many messages it got."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        part = types.Part(text=f"Seen: {len(llm_request.contents)}.")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def test_an_agent_of_google_adk(tmp_path: Path) -> None:
    """Each runner is a new one with an empty session: kaosmem has the earlier messages."""
    for question, answer in (("How long is the notice?", "Seen: 1."), ("How?", "Seen: 3.")):
        agent = LlmAgent(name="analyst", model=ScriptedModel(model="scripted"))
        kept = KaosmemPlugin(tmp_path, budget=8_000)
        runner = InMemoryRunner(agent, app_name="app", plugins=[kept])
        events = await runner.run_debug(question, session_id="deal-42", quiet=True)
        assert events[-1].content.parts[0].text == answer
