"""A coding agent's six hundred events in a window of four thousand tokens."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from kaosmem import SessionMemory, ToolUseBlock
from kaosmem.conversation import (
    ActionEvent,
    Condensation,
    ConversationEvent,
    EventLog,
    LLMSummarizingCondenser,
    ObservationEvent,
)
from kaosmem.sources import ConversationSource
from kaosmem.testing import ScriptedLLM, check_openai_messages

WINDOW = 4_000
TOOLS = ("shell_command", "file_read", "file_edit", "notebook_cell")
INSTRUCTION = "TASK-{0}: the client in src/client_{0}.py must give up after {0} attempts. Never touch src/legacy."


def work(events: int, seed: int) -> Iterator[ConversationEvent]:
    """Yield what happens: every fifty events another instruction, between them steps and a list of those to do."""
    rng = random.Random(seed)
    to_do: list[str] = []
    yield ActionEvent("system_message", "You are a careful programmer.", source="environment")
    for number in range(1, events):
        if number % 50 == 1:
            yield ActionEvent("message", f"The last task is done, and {len(to_do)} steps are left.")
            yield ActionEvent("message", INSTRUCTION.format(number // 50 + 1), source="user")
        elif number % 14 == 0:
            to_do = [step for step in to_do if rng.random() < 0.7] + [
                f"step {number}: look at line {rng.random()}"
            ]
            yield from call(number, "task_tracker", {"open": to_do}, "noted")
        elif number % 2 == 0:
            path = f"src/client_{rng.randint(1, 20)}.py"
            lines = "\n".join(f"line {n}: {rng.random()}" for n in range(rng.randint(1, 12)))
            yield from call(number, rng.choice(TOOLS), {"path": path}, f"{lines}\n{path}: ok")


def call(
    number: int, tool: str, arguments: dict[str, object], outcome: str
) -> Iterator[ConversationEvent]:
    yield ActionEvent(
        tool, "", ToolUseBlock(f"call-{number}", tool, json.dumps(arguments)), f"answer-{number}"
    )
    yield ObservationEvent("result", outcome, f"call-{number}")


async def test_every_open_task_and_instruction_is_in_the_prompt_at_every_step() -> None:
    """The model forgets nearly everything; the prompt stays in its window, and all can be fetched back."""
    model = ScriptedLLM(lambda _: "The agent read and edited some clients.")
    log = EventLog()
    told = list[str]()
    to_do = list[str]()
    condenser = LLMSummarizingCondenser(model, max_size=None)
    memory = SessionMemory.test_mode()
    await memory.attach(ConversationSource(log, condenser))
    for event in work(600, seed=7):
        log.append(event)
        if event.source == "user":
            told.append(event.text)
        if isinstance(event, ActionEvent) and event.kind == "task_tracker":
            to_do = json.loads(event.call.arguments)["open"]
        if isinstance(event, ActionEvent) and event.call is not None:
            continue  # the model is asked when the result is there
        context = await memory.assemble_context(
            budget=WINDOW, format="openai", sections=["conversation"]
        )
        assert context.used <= WINDOW
        prompt = "\n".join(item.text for item in context.items)
        assert all(instruction in prompt for instruction in told)
        assert all(step in prompt for step in to_do)

    check_openai_messages(context.messages)
    records = [event for event in log if isinstance(event, Condensation)]
    forgotten = {event_id for record in records for event_id in record.forgotten_ids}
    print(
        f"{len(log) - len(records):,} events, condensed {len(records)} times by "
        f"{len(model.requests)} requests"
    )
    print(
        f"forgotten: {len(forgotten):,}; shown: {len(context.items)}, {len(told)} of them the "
        "user's"
    )
    assert len(told) == 12
    assert len(forgotten) > 500
    assert not any(log.get(event_id).source == "user" for event_id in forgotten)
    (summary,) = (item for item in context.items if item.role == "summary")
    fetched = [await memory.fetch(source) for source in summary.sources]
    assert next(item.text for item in fetched if item.role != "summary") in {
        event.text for event in log
    }
