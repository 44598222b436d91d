"""Several places of one section: files in folders that were read, and folders with equal names."""

import pytest

from kaosmem import SessionMemory
from kaosmem.errors import MissingFileError


def write(folder, **texts):
    """Write Markdown files, by their names without the suffix."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text)


def held(memory):
    return {item.metadata["source"]: item.text for item in memory["documents"]}


@pytest.mark.parametrize("inner", ["docs/a.md", "docs"])
async def test_a_changed_file_may_be_read_without_its_folder(inner, tmp_path):
    """The folder's passages of it are brought up to date, and nothing is held twice."""
    write(tmp_path / "docs", a="The rent is 900 euros.", b="The garden is shared.")
    memory = SessionMemory.test_mode()
    await memory.ingest(tmp_path)
    write(tmp_path / "docs", a="The rent is 950 euros.")
    assert (await memory.ingest(tmp_path / inner)).changed == ("docs/a.md",)
    now = {"docs/a.md": "The rent is 950 euros.", "docs/b.md": "The garden is shared."}
    assert held(memory) == now
    assert len((await memory.ingest(tmp_path)).unchanged) == 2


@pytest.mark.parametrize("read", [".", "docs/a.md"])
async def test_a_deleted_file_leaves_when_it_is_read_again(read, tmp_path):
    """Of its folder, or alone. While its folder is missing, as a disk that is not mounted, it stays."""
    write(tmp_path / "docs", a="The rent is 900 euros.", b="The garden is shared.")
    memory = SessionMemory.test_mode()
    file = tmp_path / "docs/a.md"
    await memory.ingest(tmp_path / read)
    (tmp_path / "docs").rename(tmp_path / "elsewhere")
    with pytest.raises(MissingFileError):
        await memory.ingest(file)
    assert "The rent is 900 euros." in held(memory).values()
    (tmp_path / "elsewhere").rename(tmp_path / "docs")
    file.unlink()
    report = await memory.ingest(file)
    assert (len(report.vanished), report.items_removed) == (1, 1)
    assert "The rent is 900 euros." not in held(memory).values()
    with pytest.raises(MissingFileError):
        await memory.ingest(file)


@pytest.mark.parametrize("left", [(), ("a",)])
async def test_a_deleted_file_leaves_when_a_folder_inside_is_read_again(left, tmp_path):
    """So does one in a deleted folder. A file that is there, but not included, stays."""
    texts = {"a": "The rent is 900 euros.", "b": "The garden is shared."}
    write(tmp_path / "docs", **texts)
    write(tmp_path / "docs/old", c="The rent was 800 euros.")
    write(tmp_path, d="The house is old.")
    (tmp_path / "docs/rent.py").write_text("RENT = 900\n")
    memory = SessionMemory.test_mode()
    await memory.ingest(tmp_path)
    (tmp_path / "docs/old/c.md").unlink()
    (tmp_path / "docs/old").rmdir()
    for name in texts.keys() - left:
        (tmp_path / f"docs/{name}.md").unlink()
    report = await memory.ingest(tmp_path / "docs", include=["*.md"])
    assert len(report.vanished) == report.items_removed == 3 - len(left)
    assert held(memory).keys() == {"d.md", "docs/rent.py", *(f"docs/{name}.md" for name in left)}
    assert len((await memory.ingest(tmp_path)).unchanged) == len(held(memory))


async def test_a_folder_takes_over_a_file_that_was_read_before_it(tmp_path):
    """Otherwise the file's own passages would stay as they were when the folder is read again."""
    write(tmp_path, a="The rent is 900 euros.", b="The garden is shared.")
    memory = SessionMemory.test_mode()
    await memory.ingest(tmp_path / "a.md")
    await memory.ingest(tmp_path)
    assert len(memory["documents"]) == 2
    write(tmp_path, a="The rent is 950 euros.")
    await memory.ingest(tmp_path)
    assert held(memory) == {"a.md": "The rent is 950 euros.", "b.md": "The garden is shared."}
    (tmp_path / "a.md").unlink()
    await memory.ingest(tmp_path)
    assert held(memory).keys() == {"b.md"}


async def test_a_folder_and_one_inside_may_be_read_in_turn(tmp_path):
    """Files that one call does not include stay those of the other call."""
    write(tmp_path / "code", a="The rent is 900 euros.")
    (tmp_path / "code/rent.py").write_text("RENT = 900\n")
    memory = SessionMemory.test_mode()
    for turn in range(3):
        added = 0
        for path, include in ((tmp_path, ["*.md"]), (tmp_path / "code", ["*.py"])):
            added += (await memory.ingest(path, include=include)).items_added
        assert added == (2 if turn == 0 else 0)
    assert held(memory).keys() == {"code/a.md", "rent.py"}


async def test_folders_with_files_of_the_same_name_have_different_sources(tmp_path):
    """Otherwise the passages of both would stand below one label, as if they were one file."""
    for name, rent in (("north", 900), ("south", 700)):
        write(tmp_path / name, flat=f"The rent is {rent} euros.", house="A garden.")
    write(tmp_path / "west/south", flat="The rent is 500 euros.")
    (tmp_path / "south/plan.png").write_bytes(b"\x00")
    folders = [tmp_path / name for name in ("north", "south", "west/south")]
    place = tmp_path / "sessions"
    for turn in range(2):
        async with SessionMemory.open(place) as memory:
            reports = [await memory.ingest(folder) for folder in folders]
            assert sum(report.items_added for report in reports) == (5 if turn == 0 else 0)
            assert [skipped.source for skipped in reports[1].skipped] == ["south/plan.png"]
            context = await memory.assemble_context(
                "What is the rent?", budget=200, filter={"source": "south/flat.md"}
            )
            assert "[south/flat.md:1-1] The rent is 700 euros." in context.text
            assert "west/south/flat.md" in held(memory)
    async with SessionMemory.open(place) as memory:
        for item in [*memory["documents"]]:
            if not item.metadata["source"].startswith("south/"):
                memory.remove(item.id)
        write(tmp_path / "south", flat="The rent is 750 euros.")
        report = await memory.ingest(tmp_path / "south")
        assert (report.changed, report.unchanged) == (("south/flat.md",), ("south/house.md",))
        (tmp_path / "south/house.md").unlink()
        assert (await memory.ingest(tmp_path / "south")).vanished == ("south/house.md",)
