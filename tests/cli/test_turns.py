"""`kaosmem why`, `diff`, `top`, `budget` and `view` over a stored session."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from kaosmem import SessionMemory
from tests.cli.test_commands import command
from tests.contexts import sums_of
from tests.places import files_in

__all__ = ["command"]


def ask(place, *questions, documents=(), window=None):
    """Keep a turn for each question, in a window or none."""

    async def talk():
        async with SessionMemory.open(place, "s", trace=True) as memory:
            memory.add_many("documents", documents)
            for name, question in questions:
                memory.add("findings", f"{name} owns the deal.", key="owner")
                await memory.assemble_context(question, budget=120, window=window)

    asyncio.run(talk())


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A session of three turns, in which a fact is replaced."""
    place = tmp_path_factory.mktemp("turns")
    names = enumerate(("Ann", "Bob", "Cleo"), 1)
    questions = [(name, f"Who owns the deal of room {number}?") for number, name in names]
    ask(place, *questions, documents=[f"Room {n} costs {n} euros." for n in range(40)])
    return f"{place}/s"


def _ok(outcome):
    assert outcome.code == 0, outcome.err
    return outcome.out


def test_why_answers_for_any_turn(url, command):
    assert "is in, " in _ok(command("why", url, "Ann owns", "--turn", 1))
    assert "is out: 'Cleo owns the deal.'" in _ok(command("why", url, "Ann owns"))
    assert "is in, " in _ok(command("why", url, "Ann owns", "--turn", -3))
    refused = command("why", url, "Ann owns", "--turn", 4)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "turns 1 to 3" in refused.err


def test_diff_names_what_was_replaced(url, command):
    assert "turn 1 to turn 2" in _ok(command("diff", url, "--turns", 1, 2))
    out = _ok(command("diff", url, "--turns", -3, -1))
    assert re.match(r"turn 1 to turn 3: .*1 replaced", out)
    assert re.search(r"replaced +findings +Ann owns the deal\.", out)
    assert re.search(r"replacing +findings +Cleo owns the deal\.", out)


def test_top_prints_the_newest_turn_once_in_a_pipe(url, command):
    """The tokens by section add up to the budget."""
    out = _ok(command("top", url))
    assert "3 turns" in out
    assert "Who owns the deal of room 3?" in out
    *parts, (_, budget, _) = sums_of(out)
    assert sum(used for _, used, _ in parts) == budget == 120


def test_budget_measures_the_session_s_own_questions(url, tmp_path, command):
    """Of each question, the best matches at the largest budget are the evidence; nothing changes."""
    place = Path(url).parent
    before = files_in(place)
    picture = tmp_path / "budgets.svg"
    line = "budget", url, "--budgets", "40,400", "--ranker", "bm25"
    report = json.loads(_ok(command(*line, "--json", "--plot", picture)))
    assert (report["questions"], picture.read_text()[:5]) == (3, "<?xml")
    figures = {}
    for row in report["figures"]:
        figures[row["assembler"], row["budget"]] = row
    assert figures["own", 400]["recall"] == 1.0
    assert 0 < figures["own", 40]["recall"] <= 1.0
    assert all(row["violations"] == 0 for row in report["figures"])
    out = _ok(command("budget", url, "--budgets", "40,400", "--limit", 2))
    assert "questions: 2\n" in out
    rows = [line.split()[:2] for line in out.splitlines()]
    assert ["own", "40"] in rows
    assert ["own", "400"] in rows
    assert files_in(place) == before


def test_budget_takes_what_a_reply_used_for_evidence(tmp_path, command):
    """A reply names the item that it rests on, whatever ranks it; a reply that used none is left out.

    A question that is tried again without a reply keeps the reply that it had.
    """

    async def talk():
        async with SessionMemory.open(tmp_path, "s", trace=True) as memory:
            memory.add_many("documents", [f"Room {n} costs {100 + n} euros." for n in range(99)])
            for number, reply in ((17, "It costs 117 euros."), (31, "I do not know.")):
                memory.add("messages", f"What does room {number} cost?")
                await memory.assemble_context(budget=200)
                memory.add("messages", reply, role="assistant")
            await memory.assemble_context("What does room 17 cost?", budget=200)

    asyncio.run(talk())
    out = _ok(command("budget", f"{tmp_path}/s", "--budgets", "400", "--ranker", "bm25"))
    assert out.count("used in replies") == 2
    assert len(re.findall("^(own|bm25) ", out, re.MULTILINE)) == 2  # no figures are said twice
    assert re.search(r"own +400 +.* 1\.000 +0\.\d+ +2 +1 ", out)


def test_thinking_is_no_part_of_the_shown_texts(tmp_path, command):
    """Labels take a share of the budget, also where a text leaves out more thinking than that."""
    thinking = {"type": "thinking", "thinking": "Let me see. " * 90, "signature": "seal"}
    reply = {"role": "assistant", "content": [thinking, {"type": "text", "text": "It costs 117."}]}

    async def talk():
        async with SessionMemory.open(tmp_path, "s", trace=True) as memory:
            memory.add("messages", "What does room 17 cost?")
            await memory.assemble_context(budget=200)
            memory.add_message(reply, format="anthropic")

    asyncio.run(talk())
    report = json.loads(_ok(command("budget", f"{tmp_path}/s", "--budgets", "400", "--json")))
    assert all(row["framing"] >= 0 for row in report["figures"])


def test_budget_asks_user_messages_without_turns(tmp_path, command):
    async def save(session_id, *messages):
        async with SessionMemory.open(tmp_path, session_id) as memory:
            memory.add("findings", "Ann owns the deal.")
            memory.add_many("messages", messages)

    asyncio.run(save("asked", "Who owns the deal?", "And who else?"))
    asyncio.run(save("silent"))
    assert "questions: 2\n" in _ok(command("budget", f"{tmp_path}/asked"))
    refused = command("budget", f"{tmp_path}/silent")
    assert (refused.code, "trace=True" in refused.err) == (2, True)


def test_view_writes_one_file(url, tmp_path, command):
    page = tmp_path / "turns.html"
    assert "3 turns" in _ok(command("view", url, "--output", page))
    assert "Cleo owns the deal." in page.read_text()
    assert command("view", url).code == 2
    missing = command("view", url, "--output", tmp_path / "none" / "turns.html")
    assert (missing.code, "a folder that is there" in missing.err) == (2, True)


def test_a_session_without_turns_says_how_to_keep_them(tmp_path, command):
    async def save():
        async with SessionMemory.open(tmp_path, "s") as memory:
            memory.add("findings", "Ann owns the deal.")

    asyncio.run(save())
    for line in (("why", f"{tmp_path}/s", "Ann"), ("diff", f"{tmp_path}/s")):
        assert "trace=True" in command(*line).err
    assert "trace=True" in _ok(command("top", f"{tmp_path}/s"))


def test_a_difference_needs_two_turns(tmp_path, command):
    ask(tmp_path, ("Ann", "Who owns the deal?"))
    url = f"{tmp_path}/s"
    assert "no turn -2; there is only turn 1" in command("diff", url).err
    assert "no turn 2; there is only turn 1" in command("diff", url, "--turns", 1, 2).err
