"""Repair of a session that lost a file, or a line of one: no older text stands for a newer one without a word."""

import json
import random
import re
import shutil
from contextlib import suppress
from unittest.mock import patch

from kaosmem import repair_session
from kaosmem.errors import CorruptionError, NotFoundError
from tests.persistence.damage.damaged import held, opened


class Told:
    """The texts that the items of a session were given, newest last.

    seqs: the records that gave the newest ones.
    """

    def __init__(self, root):
        self.folder = root / "default" / "s"
        self.texts = {}
        self.seqs = {}

    @property
    def files(self):
        """Return the files that hold items."""
        return {path: path.read_bytes() for path in sorted(self.folder.glob("*/*"))}

    def note_records(self):
        for path, data in self.files.items():
            if path.parent.name != "log" or path.suffix != ".jsonl":
                continue
            for record in map(json.loads, data.splitlines()):
                if record["op"] in ("add", "update"):
                    self.seqs[record["d"]["item"]["id"]] = record["seq"]


async def told(root, seed):
    """Store a session whose items are updated, evicted and removed over some snapshots."""
    rng = random.Random(seed)
    session = Told(root)
    with patch("kaosmem.persistence.log.MIN_LOG_BYTES", 1_500):
        for turn in range(9):
            async with opened(root) as memory:
                for number in range(3):
                    section = rng.choice(["documents", "findings", "actions", "messages"])
                    item_id = f"{section[0]}{turn}.{number}"
                    memory.add(section, f"first text of {item_id}", id=item_id)
                    session.texts[item_id] = [f"first text of {item_id}"]
                    updated = rng.choice([each for _, each in held(memory)])
                    text = f"text {turn}.{number} of {updated}"
                    memory.update(updated, text)
                    session.texts[updated].append(text)
                    if rng.random() < 0.3:
                        memory.remove(rng.choice([each for _, each in held(memory)]))
            session.note_records()
    return session


def losses(files):
    """Yield files of which one is missing, cut, or lacks a line."""
    for path, data in files.items():
        others = {each: kept for each, kept in files.items() if each != path}
        yield others
        lines = data.splitlines(keepends=True)
        for number in {len(lines) // 3, len(lines) * 2 // 3} - {0}:
            yield {**others, path: b"".join(lines[:number])}
            yield {**others, path: b"".join([*lines[:number], *lines[number + 1 :]])}


def put(folder, files):
    for path in folder.glob("*/*"):
        path.unlink()
    for path, data in files.items():
        path.write_bytes(data)


def is_said(report, seq):
    """Return whether a report says that a record is lost, and what that means for the items that it changed."""
    for error in report.damage:
        range_ = r"records? (\d+)(?: to (\d+)| (and all later ones))? (?:is|are) .*as it was before"
        found = re.search(range_, str(error))
        if found is None:
            continue
        first, last, is_open = found.groups()
        if int(first) <= seq and (is_open or seq <= int(last or first)):
            return True
    return False


async def test_no_older_text_stands_for_a_newer_one(tmp_path):
    """An item whose update is lost is marked.

    If the item is not known, the report names the lost records.
    """
    repaired = older = marked = 0
    for seed in range(3):
        root = tmp_path / str(seed)
        session = await told(root, seed)
        whole = session.files
        for left in losses(whole):
            put(session.folder, left)
            with suppress(CorruptionError):  # of another session, or nothing of it is intact
                report = await repair_session(root, "s", f"new{repaired}")
                older += await checked(root, session, report)
                repaired += report.into is not None
                marked += len(report.outdated)
            put(session.folder, whole)
    assert repaired > 40
    assert older > marked > 5


async def test_the_loss_of_the_newest_segment_of_a_copy_is_said(tmp_path):
    """Nothing in a copied folder tells how many records the segment had: the end is left open."""
    older = 0
    for seed in range(6):
        session = await told(tmp_path / f"{seed}", seed)
        root = tmp_path / f"{seed}-copy"
        shutil.copytree(tmp_path / f"{seed}", root)
        newest = max((root / "default" / "s" / "log").glob("*.jsonl"))
        newest.unlink()
        report = await repair_session(root, "s", "repaired")
        assert any(error.file == f"log/{newest.name}" for error in report.damage)
        older += await checked(root, session, report)
    assert older > 3


async def checked(root, session, report):
    """Check the items of a session after its repair, and return how many have an older text."""
    older = 0
    async with opened(root, report.into or "s", read_only=True) as memory:
        for item_id, texts in session.texts.items():
            try:
                item = await memory.fetch(item_id)
            except NotFoundError:
                assert item_id not in report.outdated
                continue
            assert item.text in texts
            is_older = item.text != texts[-1]
            older += is_older
            is_marked = item_id in report.outdated
            assert is_marked == ("newer_text_lost" in item.metadata)
            assert not is_marked or (is_older and item_id not in memory)
            assert not is_older or is_marked or is_said(report, session.seqs[item_id]), (
                report.damage
            )
    return older
