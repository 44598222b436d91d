"""An agent that survives `kill -9`. docs/tutorial.md builds it in ten steps."""

import asyncio
import time
from typing import Any

from kaosmem import SessionMemory

PLACE = "./.kaosmem"


def said(message: dict[str, Any]) -> str:
    """Return the text of a message. A retrieved block stands before a question."""
    content = message["content"]
    return str(content if isinstance(content, str) else content[-1]["text"])


async def think(messages: list[Any]) -> dict[str, Any]:
    """Stand in for a model. Call your provider here."""
    last = messages[-1]
    if last["role"] == "tool":
        return {"role": "assistant", "content": f"The tool said: {said(last)}"}
    if "tests" in said(last):
        call = {"id": f"call-{len(messages)}", "type": "function"}
        function = {"name": "run_tests", "arguments": "{}"}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{**call, "function": function}],
        }
    first = next(said(each) for each in messages if each["role"] == "user")
    return {"role": "assistant", "content": f"You began with: {first}"}


def run_tests() -> str:
    """Take long, as tools do."""
    print("running the tests", flush=True)
    time.sleep(60)
    return "all tests passed"


async def turn(question: str) -> str:
    """Answer one question. Every step is saved before the next one begins."""
    async with SessionMemory.open(PLACE, "tutorial") as memory:
        memory.add("role", "You are a careful engineer.", key="role")
        memory.add("documents", "The release is on Friday.", key="plan")
        memory.add_message({"role": "user", "content": question}, format="openai")
        await memory.save()
        while True:
            context = await memory.assemble_context(budget=2_000, format="openai", window="main")
            reply = await think(context.messages)
            memory.add_message(reply, format="openai")
            await memory.save()
            if not reply.get("tool_calls"):
                return str(reply["content"])
            for call in reply["tool_calls"]:
                result = {"role": "tool", "tool_call_id": call["id"], "content": run_tests()}
                memory.add_message(result, format="openai")
            await memory.save()


def main() -> None:
    """Answer the questions of a terminal, one a line."""
    while True:
        try:
            question = input()
        except EOFError:
            return
        print(asyncio.run(turn(question)), flush=True)


if __name__ == "__main__":
    main()
