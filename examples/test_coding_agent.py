"""A coding agent at work for two thousand events, in a window of four thousand tokens."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from kaosmem import (
    Action,
    Condensation,
    ConversationSource,
    Event,
    EventLog,
    LLMSummarizingCondenser,
    Observation,
    SessionMemory,
    SummarizingConfig,
    ToolUseBlock,
)
from kaosmem.testing import ScriptedLLM, check_openai_messages

WINDOW = 4_000
TOOLS = ("shell_command", "file_read", "file_edit", "notebook_cell")
INSTRUCTION = "TASK-{0}: the client in src/client_{0}.py must give up after {0} attempts. Never touch src/legacy."


def session(events: int, seed: int) -> Iterator[tuple[Event, set[str]]]:
    """Yield events, each with the tasks that are open after it."""
    rng = random.Random(seed)
    asked, open_tasks = 0, set[str]()

    def using(tool: str, arguments: dict[str, object], outcome: str) -> Iterator[tuple[Event, set[str]]]:
        nonlocal made
        yield Action(tool, "", ToolUseBlock(f"call-{made}", tool, json.dumps(arguments)), f"answer-{made}"), open_tasks
        yield Observation("result", outcome, f"call-{made}"), open_tasks
        made += 2

    yield Action("system_message", "You are a careful programmer.", source="environment"), open_tasks
    made = 1
    while made < events:
        if made // 100 >= asked:
            asked += 1
            open_tasks = {*open_tasks, f"TASK-{asked}"}
            yield Action("message", INSTRUCTION.format(asked), source="user"), open_tasks
            made += 1
        elif len(open_tasks) > 2 and rng.random() < 0.05:
            open_tasks = open_tasks - {min(open_tasks)}
        else:
            path = f"src/client_{rng.randint(1, asked)}.py"
            lines = "\n".join(f"line {n}: {rng.random()}" for n in range(rng.randint(1, 12)))
            yield from using(rng.choice(TOOLS), {"path": path}, f"{lines}\n{path}: ok")
            continue
        yield from using("task_tracker", {"open": sorted(open_tasks)}, "noted")


async def test_every_open_task_and_instruction_is_in_the_prompt_at_every_step() -> None:
    """The model forgets nearly everything; the prompt stays in its window, and all can be fetched back."""
    model = ScriptedLLM(lambda _: "The agent read and edited some clients.")
    log, told = EventLog(), list[str]()
    condenser = LLMSummarizingCondenser(model, SummarizingConfig(max_size=None))
    memory = SessionMemory.test_mode()
    await memory.attach(ConversationSource(log, condenser))
    for event, open_tasks in session(2_000, seed=7):
        log.append(event)
        if event.source == "user":
            told.append(event.text)
        context = await memory.assemble_context(budget=WINDOW, format="openai", sections=["conversation"])
        assert context.used <= WINDOW
        prompt = "\n".join(item.text for item in context.items)
        assert all(instruction in prompt for instruction in told)
        assert all(task in prompt for task in open_tasks)

    check_openai_messages(context.messages)
    records = [event for event in log if isinstance(event, Condensation)]
    forgotten = {event_id for record in records for event_id in record.forgotten_ids or ()}
    print(f"{len(log) - len(records):,} events, condensed {len(records)} times by {len(model.requests)} requests")
    print(f"forgotten: {len(forgotten):,}; shown: {len(context.items)}, {len(told)} of them the user's")
    assert len(told) == 20
    assert len(forgotten) > 1_800
    assert not any(log.get(event_id).source == "user" for event_id in forgotten)
    (summary,) = (item for item in context.items if item.role == "summary")
    fetched = [await memory.fetch(source) for source in summary.sources]
    assert next(item.text for item in fetched if item.role != "summary") in {event.text for event in log}
