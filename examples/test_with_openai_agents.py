"""OpenAI Agents SDK: an agent whose session outlives the process, within a budget."""

from pathlib import Path
from typing import Any

from agents import Agent, ModelResponse, RunConfig, Runner, Usage
from agents.models.interface import Model
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from kaosmem.integrations.openai_agents import KaosmemFilter


class _SeenModel(Model):
    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:
        part = ResponseOutputText(text=f"Seen: {len(input)}.", type="output_text", annotations=[])
        said: Any = {"id": "m", "role": "assistant", "status": "completed", "type": "message"}
        said = ResponseOutputMessage(content=[part], **said)
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any: ...


async def test_an_agent_of_openai_agents(tmp_path: Path) -> None:
    """Each run gets the question alone: the session has the earlier messages."""
    kept = KaosmemFilter(tmp_path, conversation="deal-42", budget=8_000)
    config = RunConfig(call_model_input_filter=kept, tracing_disabled=True)
    agent = Agent(name="analyst", model=_SeenModel())
    for question, answer in (("How long is the notice?", "Seen: 1."), ("How?", "Seen: 3.")):
        result = await Runner.run(agent, question, hooks=kept, run_config=config)
        assert result.final_output == answer
