"""Which files of a folder are taken: .gitignore files, and the patterns of a caller."""

import subprocess
from time import process_time

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import InvalidArgumentError, SessionMemory
from kaosmem.ingest.patterns import Pattern, Patterns

names = st.sampled_from(["a", "b", "ab", "a.log", "b c"])
segments = st.sampled_from(
    ["a", "b", "*", "**", "a*", "*.log", "?b", "[ab]", "[!a]*", "[^b]", "a**b", r"\*", "b c"]
)
lines = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(segments, min_size=1, max_size=3).map("/".join),
    st.sampled_from(["", "", "/"]),
)
paths = st.lists(names, min_size=1, max_size=3).map("/".join)


@given(
    st.lists(lines, max_size=4), st.lists(lines, max_size=3), st.sets(paths, min_size=1, max_size=8)
)
def test_git_ignores_the_same_files(tmp_path_factory, above, below, files):
    """Of random patterns in two folders, git itself decides as an ingestion does."""
    folder = tmp_path_factory.mktemp("repository")
    for path in sorted(files, key=len, reverse=True):
        if not (folder / path).exists():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("text")
    (folder / ".gitignore").write_text("\n".join(above))
    if (folder / "a").is_dir():
        (folder / "a" / ".gitignore").write_text("\n".join(below))
    subprocess.run(["git", "init", "--quiet", "--template=", folder], check=True)
    listed = subprocess.run(
        ["git", "-C", folder, "ls-files", "--others", "--exclude-standard", "-z"],
        capture_output=True,
        check=True,
    )
    wanted = {
        path
        for path in listed.stdout.decode().split("\0")
        if path and not path.endswith(".gitignore")
    }
    taken = {path.relative_to(folder).as_posix() for path in taken_from(folder)}
    assert taken == wanted, (above, below)


def taken_from(folder):
    from kaosmem.errors import MissingFileError
    from kaosmem.ingest.listing import find_files

    try:
        return [folder / file.source for file in find_files(folder)[0]]
    except MissingFileError:
        return []


@pytest.fixture
def project(tmp_path):
    for path in (
        "README.md",
        "src/a.py",
        "src/b.md",
        "build/out.md",
        "docs/notes.md",
        "docs/drafts/plan.md",
        "debug.log",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"The file {path}.\n")
    (tmp_path / ".gitignore").write_text("build/\n*.log\n")
    (tmp_path / "docs" / ".gitignore").write_text("drafts\n")
    return tmp_path


async def ingested(project, **options):
    return await SessionMemory.test_mode().ingest(project, **options)


async def test_what_git_ignores_is_left_out(project):
    """Folders as a whole, with the reason; on request they are read."""
    report = await ingested(project)
    assert report.new == ("README.md", "docs/notes.md", "src/a.py", "src/b.md")
    reasons = {skipped.source: skipped.reason for skipped in report.skipped}
    assert (
        reasons["build/"]
        == reasons["debug.log"]
        == reasons["docs/drafts/"]
        == "ignored by .gitignore"
    )
    everything = await ingested(project, gitignore=False)
    assert {"debug.log", "docs/drafts/plan.md"} <= {*everything.new}


async def test_a_caller_chooses_files_by_patterns(project):
    """`include` narrows, `exclude` narrows further, and a file that is named itself is read in any case."""
    assert (await ingested(project, include=["*.md"])).new == (
        "README.md",
        "docs/notes.md",
        "src/b.md",
    )
    assert (await ingested(project, include=["src/"])).new == ("src/a.py", "src/b.md")
    assert (await ingested(project, include=["*.md"], exclude=["/docs/"])).new == (
        "README.md",
        "src/b.md",
    )
    assert (await ingested(project / "debug.log")).new == ("debug.log",)


async def test_files_that_are_no_longer_chosen_leave(project):
    """The patterns of a call describe the place: its other passages go to the archive."""
    memory = SessionMemory.test_mode()
    await memory.ingest(project)
    report = await memory.ingest(project, exclude=["src/"])
    assert report.vanished == ("src/a.py", "src/b.md")


@pytest.mark.parametrize("bad", ["*.md", ["*.md", ""], ["#"], [5], 5])
async def test_patterns_that_are_none_are_refused(project, bad):
    for name in ("include", "exclude"):
        with pytest.raises(InvalidArgumentError, match=name):
            await ingested(project, **{name: bad})


async def test_a_folder_of_any_filesystem_has_a_gitignore(tmp_path):
    filesystem = MemoryFileSystem()
    filesystem.pipe_file("/room-of-patterns/.gitignore", b"*.log\n\xff\n")
    filesystem.pipe_file("/room-of-patterns/a.log", b"text")
    filesystem.pipe_file("/room-of-patterns/a.md", b"text")
    report = await SessionMemory.test_mode().ingest("memory://room-of-patterns")
    assert report.new == ("a.md",)


def test_a_hostile_pattern_takes_no_time():
    """Many stars, many `**` and many blanks cost in proportion to their number."""
    name = "a" * 200
    assert not Pattern((*["*a" * 60 + "b"],), False, False).matches(name, is_folder=False)
    deep = "/".join(["a"] * 400)
    assert Patterns(["/".join(["**", "a"] * 100) + "/b"]).decide(deep) is None
    blanks = " " * 50_000
    start = process_time()
    assert Patterns([f"a{blanks}b{blanks}"]).decide(f"a{blanks}b") is True
    assert process_time() - start < 2


async def test_no_earlier_version_of_an_unchanged_passage_is_archived(tmp_path):
    """Neither while a file is first read, nor when its other passages change or move."""
    paragraphs = [
        f"Paragraph {number} says that room {number} costs {number} euros. " * 12
        for number in range(40)
    ]
    file = tmp_path / "long.md"
    file.write_text("\n\n".join(paragraphs))
    memory = SessionMemory.test_mode()
    await memory.ingest(tmp_path)
    assert len(memory["documents"]) > 16
    assert len(memory["documents"].archive) == 0
    file.write_text("\n\n".join([*paragraphs, "One more paragraph."]))
    await memory.ingest(tmp_path)
    archived = {version.item.text for version in memory["documents"].archive.in_memory()}
    assert archived.isdisjoint(item.text for item in memory["documents"])
    await memory.save()
    async with SessionMemory.open(memory.admin.fs, "test") as again:
        assert [item.text for item in again["documents"]] == [
            item.text for item in memory["documents"]
        ]
        assert len(again["documents"].archive) == len(memory["documents"].archive)
        assert [item.metadata for item in again["documents"]] == [
            item.metadata for item in memory["documents"]
        ]
        assert (await again.ingest(tmp_path)).unchanged == ("long.md",)
