"""A folder that is read again after its files have changed."""

import asyncio
import json
import os

import pytest

from kaosmem import SectionFullError, SectionSpec, SessionMemory
from kaosmem.corpora import InMemoryCorpus, ingest_files


def write_record(folder, **fields):
    (folder / "log.jsonl").write_text(json.dumps({"text": "The heating was mended.", **fields}))


async def test_what_a_record_says_of_itself_is_kept_up_to_date(tmp_path):
    """A time, role or title that was corrected beside the same text is shown corrected."""
    memory = SessionMemory.test_mode()
    write_record(tmp_path, timestamp="2024-05-01", role="Ann", title="Old")
    await memory.ingest(tmp_path)
    write_record(tmp_path, timestamp="2025-09-09", role="Bob", title="Newer")
    assert (await memory.ingest(tmp_path)).changed == ("log.jsonl",)
    (item,) = memory["documents"]
    assert (item.metadata["timestamp"], item.metadata["title"]) == ("2025-09-09", "Newer")
    assert item.role == "Bob"


async def test_a_heading_above_an_unchanged_passage_is_its_title(tmp_path):
    """The passage has the heading as it is now."""
    file = tmp_path / "a.md"
    body = f"{'Flats are tall. ' * 90}\n\n## Sub\n\n{'The cellar is damp. ' * 60}\n"
    memory = SessionMemory.test_mode()
    for heading in ("One", "Part two"):
        file.write_text(f"# {heading}\n\n{body}")
        report = await memory.ingest(tmp_path)
    assert (report.changed, report.items_added, report.items_removed) == (("a.md",), 2, 2)
    assert [item.metadata["title"] for item in memory["documents"]] == [
        "Part two",
        "Part two > Sub",
    ]
    file.write_text(f"# {heading}\n\n{body.partition('## Sub')[0]}")
    report = await memory.ingest(tmp_path)
    assert (report.changed, report.items_removed) == (("a.md",), 1)


async def test_a_file_that_was_only_touched_is_read_once(tmp_path):
    """As after a checkout, which gives every file another time."""
    (tmp_path / "a.md").write_text("The rent is 900 euros.")
    memory = SessionMemory.test_mode()
    await memory.ingest(tmp_path)
    os.utime(tmp_path / "a.md", (1, 1))
    read = []
    for _ in range(2):
        report = await memory.ingest(tmp_path, progress=lambda *each: read.append(each))
        assert report.unchanged == ("a.md",)
    assert read == [("a.md", 1, 1)]


@pytest.mark.parametrize("is_cut_off", [False, True])
async def test_a_file_counts_as_read_when_all_its_passages_are_in(is_cut_off, tmp_path):
    """A reading that was cut off goes on with the next one. After it, the files are not read."""
    records = [json.dumps({"text": f"The rent of May {number} was paid."}) for number in range(40)]
    (tmp_path / "log.jsonl").write_text("\n".join(records))
    (tmp_path / "short.md").write_text("The rent is 900 euros.")
    memory = SessionMemory.test_mode()
    if is_cut_off:
        reading = asyncio.create_task(memory.ingest(tmp_path))
        while not len(memory["documents"]):
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert len(memory["documents"]) < 40
    await memory.ingest(tmp_path)
    assert len(memory["documents"]) == 41
    read = []
    await memory.ingest(tmp_path, progress=lambda source, *_: read.append(source))
    assert read == []


async def test_a_filesystem_without_stamps_writes_nothing_for_unchanged_files(
    tmp_path, monkeypatch
):
    """Each file is read again, and nothing is saved."""
    monkeypatch.setattr("kaosmem.ingest.listing._stamp", lambda info: "")
    (tmp_path / "a.md").write_text("The rent is 900 euros.")
    memory = SessionMemory.test_mode()
    await memory.ingest(tmp_path)
    await memory.save()
    await memory.ingest(tmp_path)
    assert not memory["documents"].journal


@pytest.mark.parametrize("into", ["session", "corpus"])
async def test_the_last_file_that_is_deleted_leaves_too(into, tmp_path):
    """An empty folder is no error where its files were read before: their passages go."""
    memory = SessionMemory.test_mode()
    corpus = InMemoryCorpus()

    async def ingest():
        if into == "session":
            return await memory.ingest(tmp_path)
        return await ingest_files(tmp_path, corpus, workers=0)

    (tmp_path / "a.md").write_text("The rent is 900 euros.")
    await ingest()
    (tmp_path / "a.md").unlink()
    assert (await ingest()).vanished == ("a.md",)
    assert (list(memory["documents"]), await corpus.sources()) == ([], {})


async def test_a_folder_is_one_place_however_its_path_is_written(tmp_path, monkeypatch):
    """`..` in a path makes no second copy of its passages."""
    (tmp_path / "docs/docs").mkdir(parents=True)
    (tmp_path / "docs/docs/a.md").write_text("The rent is 900 euros.")
    memory = SessionMemory.test_mode()
    await memory.ingest(tmp_path / "docs")
    monkeypatch.chdir(tmp_path / "docs")
    for path in (".", "../docs", f"{tmp_path}/docs/../docs/"):
        assert (await memory.ingest(path)).unchanged == ("docs/a.md",)


async def test_two_tasks_that_read_one_folder_read_it_once(tmp_path):
    """The later one finds the passages of the first, and adds no second copy of them."""
    for number in range(40):
        (tmp_path / f"{number}.md").write_text(f"The rent of flat {number} is 900 euros.")
    memory = SessionMemory.test_mode()
    first, second = await asyncio.gather(memory.ingest(tmp_path), memory.ingest(tmp_path))
    assert (len(first.new), len(second.unchanged)) == (40, 40)
    assert len(memory["documents"]) == 40


async def test_files_have_room_in_their_section(tmp_path):
    """No passage is evicted: it would be recalled after its file has changed or gone."""
    for number in range(12):
        (tmp_path / f"{number}.md").write_text(f"The rent of flat {number} is 900 euros.")
    full = SessionMemory.test_mode(sections=(SectionSpec("documents", max_items=10),))
    with pytest.raises(SectionFullError, match="raise its budget or max_items"):
        await full.ingest(tmp_path)
    shared = SessionMemory.test_mode(sections=(SectionSpec("documents", 20, eviction="none"),))
    assert (await shared.ingest(tmp_path)).items_added == 12
