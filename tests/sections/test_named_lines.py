"""A question that names a line of a file, as a stack trace does, gets the passage that holds it."""

import pytest

from kaosmem import SessionMemory
from kaosmem.language.query import Query
from kaosmem.sections.named_lines import MAX_NAMED

TRACE = """Traceback (most recent call last):
  File "/srv/app/billing/server.py", line 4, in serve
    run()
  File "/srv/app/billing/steps.py", line {0}, in step
    raise ValueError
"""


def write_steps(folder, thing="account"):
    """Write a file of a hundred functions that only their numbers tell apart, each of four lines."""
    folder.mkdir(parents=True)
    functions = [
        f"def step_{number}({thing}):\n    {thing}.lock()\n    {thing}.book({number})\n\n"
        for number in range(100)
    ]
    (folder / "steps.py").write_text("".join(functions))


async def shown(memory, question, *, filter=None):
    """Return the first and last lines that are shown of each source."""
    context = await memory.assemble_context(question, budget=400, filter=filter)
    return {item.metadata["source"]: item.metadata["lines"] for item in context.items}


@pytest.mark.parametrize(
    "question",
    [
        "What fails in billing/steps.py:{0}?",
        "src/billing/steps.py:{0}:17: error: account is locked",
        "    at book (/srv/app/billing/steps.py:{0}:17)",
        "what is on line {0} of steps.py?",
        "explain `steps.py` line {0}",
        TRACE,
    ],
)
async def test_the_passage_with_a_named_line_is_shown(question, tmp_path):
    """The words of the line alone find it no better than a hundred others."""
    write_steps(tmp_path / "billing")
    memory = SessionMemory.test_mode()
    await memory.ingest(tmp_path)
    for line in (1, 203, 390):
        first, last = (await shown(memory, question.format(line)))["billing/steps.py"]
        assert first <= line <= last


async def test_a_named_line_is_of_the_named_file(tmp_path):
    """A file of the same name in another folder is another one, and a filter is obeyed."""
    for name in ("billing", "login"):
        write_steps(tmp_path / name, thing=f"{name}_account")
    memory = SessionMemory.test_mode()
    await memory.ingest(tmp_path)
    context = await memory.assemble_context("What fails in login/steps.py:203?", budget=400)
    holding = set()
    for item in context.items:
        first, last = item.metadata["lines"]
        if first <= 203 <= last:
            holding.add(item.metadata["source"])
    assert holding == {"login/steps.py"}
    found = await shown(
        memory, "What fails in steps.py:203?", filter={"source": "billing/steps.py"}
    )
    assert found.keys() == {"billing/steps.py"}


def test_the_call_that_failed_comes_first():
    """Python's traces name it last. Times, versions and addresses are no lines of files."""
    assert Query(TRACE.format(9)).named_lines[0] == ("/srv/app/billing/steps.py", 9)
    assert Query("main.go:7 calls util.go:9").named_lines == [("main.go", 7), ("util.go", 9)]
    assert Query("At 12:30 version 1.2 was on the server, 5 lines of code later.").named_lines == []
    assert Query("a" * 100_000 + "/" * 100_000).named_lines == []


async def test_a_log_that_names_many_lines_leaves_room_for_other_passages(tmp_path):
    """Only some of the passages come before all others."""
    write_steps(tmp_path / "billing")
    (tmp_path / "limits.md").write_text("An overdraft limit of zero locks the account.")
    memory = SessionMemory.test_mode()
    await memory.ingest(tmp_path)
    log = "\n".join(f"steps.py:{line}: the overdraft limit is zero" for line in range(1, 400, 9))
    context = await memory.assemble_context(log, budget=300 * (MAX_NAMED + 2))
    assert "limits.md" in {item.metadata["source"] for item in context.items}
