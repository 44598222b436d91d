"""The steps of the tutorial, put together as a reader would, are a program that survives `kill -9`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kaosmem import SessionMemory
from kaosmem.testing import check_openai_messages

ROOT = Path(__file__).parent.parent
STEPS = re.findall(
    r"(?ms)^## \d+\. .*?(?=^## |\Z)", (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
)


def program(steps):
    """Return the blocks of some steps, below each other."""
    return "\n\n".join(re.findall(r"(?s)```py\n(.*?)```", "".join(steps)))


def terminals():
    """Return each command of the last step, and the lines below it."""
    blocks = re.findall(r"(?s)```\n\$ (.*?)\n(.*?)\n```", STEPS[-1])
    return [(command, lines.split("\n")) for command, lines in blocks]


def start(folder):
    return subprocess.Popen(
        [sys.executable, "agent.py"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def talk(agent, lines):
    """Type every other line of a terminal, and read the ones between them."""
    for question, answer in zip(lines[::2], lines[1::2], strict=True):
        agent.stdin.write(f"{question}\n")
        agent.stdin.flush()
        assert agent.stdout.readline().strip() == answer


def test_the_steps_are_the_example():
    assert len(STEPS) == 10
    assert program(STEPS) == (ROOT / "examples" / "agent.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("steps", range(2, 10))
def test_the_file_runs_after_each_step(steps, tmp_path):
    """A reader who stops after any step has a file without mistakes."""
    (tmp_path / "agent.py").write_text(program(STEPS[:steps]), encoding="utf-8")
    with start(tmp_path) as agent:
        agent.communicate("", timeout=60)
    assert agent.returncode == 0


async def test_the_agent_survives_a_kill(tmp_path):
    """Killed within a tool, it goes on, and tells why: as the last step of the page shows."""
    (tmp_path / "agent.py").write_text(program(STEPS), encoding="utf-8")
    (_, before), (_, after), (command, answer) = terminals()
    with start(tmp_path) as agent:
        talk(agent, before)
        agent.kill()
    with start(tmp_path) as agent:
        talk(agent, after)
        agent.communicate(timeout=60)
        assert agent.returncode == 0
    name, *arguments = re.findall(r'"[^"]*"|\S+', command)
    assert name.endswith("/kaosmem")
    found = subprocess.run(
        [sys.executable, "-m", "kaosmem.cli", *(each.strip('"') for each in arguments)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert found.stdout.strip().split("\n") == answer
    async with SessionMemory.open(tmp_path / ".kaosmem", "tutorial") as memory:
        told = [item.text for item in memory["messages"] if item.role == "user"]
        assert told == [*before[::2], *after[::2]]
        context = await memory.assemble_context(budget=2_000, format="openai", window="main")
        check_openai_messages(context.messages)
