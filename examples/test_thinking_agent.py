"""An agent that thinks and calls tools in Anthropic's format, in a window smaller than its tool's results."""

from __future__ import annotations

from typing import Any

from kaosmem import Reason, SessionMemory
from kaosmem.testing import check_anthropic_messages

BUDGET = 900


class ScriptedClient:
    """Thinks and reads a file for every question, then answers; refuses messages that the API would refuse."""

    def __init__(self) -> None:
        self.calls = 0

    def create(self, *, system: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
        check_anthropic_messages(messages, system)
        self.calls += 1
        last = messages[-1]["content"]
        if isinstance(last, list) and last[0]["type"] == "tool_result":
            return {
                "role": "assistant",
                "content": [{"type": "text", "text": "It is in the file."}],
            }
        return {
            "role": "assistant",
            "content": [
                {
                    "type": "thinking",
                    "thinking": "I should read the file.",
                    "signature": f"sealed-{self.calls}",
                },
                {
                    "type": "tool_use",
                    "id": f"toolu_{self.calls}",
                    "name": "read_file",
                    "input": {"path": "log.txt"},
                },
            ],
        }


async def test_a_long_result_is_cut_and_nothing_is_lost() -> None:
    memory = SessionMemory.test_mode()
    client = ScriptedClient()
    memory.add("role", "Answer from the files.")
    log_file = "\n".join(f"line {number}: nothing happened" for number in range(2_000))
    for number in range(5):
        memory.add("messages", f"What is in line {number}?")
        while True:
            context = await memory.assemble_context(
                budget=BUDGET, format="anthropic", overflow="cut"
            )
            assert context.used <= BUDGET
            reply = client.create(system=context.system, messages=context.messages)
            memory.add_message(reply, format="anthropic")
            calls = [block for block in reply["content"] if block["type"] == "tool_use"]
            if not calls:
                break
            results = [
                {"type": "tool_result", "tool_use_id": call["id"], "content": log_file}
                for call in calls
            ]
            result = memory.add_message({"role": "user", "content": results}, format="anthropic")
        assert context.decision(result.id).reason is Reason.SHORTENED
        assert (await memory.fetch(result.id)).text == log_file
