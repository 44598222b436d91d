"""An agent tested offline: a scripted model and a real session, without disk and network."""

from __future__ import annotations

from typing import Any

from kaosmem import SessionMemory
from kaosmem.formats import count_messages

BUDGET = 600


class ScriptedModel:
    """Calls a tool for every question, then answers from its result; stands for a provider's client."""

    def __init__(self) -> None:
        self.largest = self.calls = 0

    def chat(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        self.largest = max(self.largest, count_messages(messages, "openai"))
        self.calls += 1
        # What was recalled or found for the question stands in a block of its own after a tool's
        # result.
        last = next(m for m in reversed(messages) if not str(m["content"]).startswith("<context>"))
        if last["role"] == "tool":
            return {"role": "assistant", "content": f"It says: {last['content']}"}
        call = {
            "id": f"call-{self.calls}",
            "type": "function",
            "function": {"name": "look_up", "arguments": "{}"},
        }
        return {"role": "assistant", "content": None, "tool_calls": [call]}


async def turn(memory: SessionMemory, model: ScriptedModel, question: str) -> str:
    """Run the agent until it answers; this is the code under test."""
    memory.add("messages", question)
    while True:
        context = await memory.assemble_context(budget=BUDGET, format="openai")
        reply = model.chat(context.messages)
        memory.add_message(reply, format="openai")
        if not reply.get("tool_calls"):
            return str(reply["content"])
        for call in reply["tool_calls"]:
            result = {
                "role": "tool",
                "tool_call_id": call["id"],
                "content": f"clause {len(memory['messages'])}",
            }
            memory.add_message(result, format="openai")


async def test_an_agent_stays_within_its_window_for_fifty_turns() -> None:
    memory = SessionMemory.test_mode()
    model = ScriptedModel()
    memory.add("role", "Look everything up.")
    answers = [await turn(memory, model, f"What does clause {number} say?") for number in range(50)]
    assert all(answer.startswith("It says: clause") for answer in answers)
    assert BUDGET / 2 < model.largest <= BUDGET
    assert len(memory["messages"]) == 50 * 4


async def test_two_tests_share_nothing() -> None:
    assert len(SessionMemory.test_mode()["messages"]) == 0
