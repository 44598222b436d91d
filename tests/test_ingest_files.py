"""Which files are found, what is said of the others, and what ingesting again has to read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from hypothesis import given
from hypothesis import strategies as st

from kaosmem.errors import MissingExtraError, NothingToIngestError
from kaosmem.ingest import IngestReport, Skipped, SourceFile, changes, find_files, read_passages
from kaosmem.ingest.files import decoded
from kaosmem.ingest.kinds import Kind, kind_of
from kaosmem.names import check_item_id


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def sources(root: Path) -> list[str]:
    return [file.source for file in find_files(root)[0]]


def texts(path: Any) -> dict[str, list[str]]:
    files, _ = find_files(path)
    return {reading.file.source: [passage.text for passage in reading.passages] for reading in read_passages(files)}


FOLDER: dict[str, str | bytes] = {
    "README": "How to read this.",
    "notes/b.md": "# B\n\nText.",
    "notes/a.txt": "One.\n\nTwo.",
    "src/main.py": "def main():\n    pass\n",
    "records.jsonl": '{"text": "hello"}\n',
}


def test_files_come_in_order_of_source(tmp_path: Path) -> None:
    """The order is that of the paths below the folder, `/` between names, on any filesystem."""
    assert sources(write(tmp_path, FOLDER)) == [
        "README",
        "notes/a.txt",
        "notes/b.md",
        "records.jsonl",
        "src/main.py",
    ]


def test_every_filesystem_gives_the_same_passages(tmp_path: Path) -> None:
    """A local folder, a URL in memory and a filesystem object hold the same ids and texts."""
    root = write(tmp_path, FOLDER)
    memory = fsspec.filesystem("memory")
    name = uuid4().hex
    for source, content in FOLDER.items():
        memory.pipe_file(f"/{name}/{source}", content.encode() if isinstance(content, str) else content)
    local = texts(root)
    assert len(local) == len(FOLDER)
    assert texts(str(root)) == local
    assert texts(f"memory://{name}") == local
    assert texts(DirFileSystem(f"/{name}", memory)) == local
    assert texts(DirFileSystem(str(root), fsspec.filesystem("file"))) == local


def test_one_file_is_its_own_source(tmp_path: Path) -> None:
    """Ingesting a file names it without its folder, hidden or not."""
    root = write(tmp_path, {"notes/.plan.md": "Go."})
    assert sources(root / "notes/.plan.md") == [".plan.md"]


def test_what_is_skipped_is_named_with_its_reason(tmp_path: Path) -> None:
    """Each file of another kind, and each folder that is not entered, is one entry."""
    root = write(
        tmp_path,
        {
            "kept.txt": "text",
            "image.PNG": b"\x89PNG",
            "LICENSE.pdf": b"%PDF",
            "core": b"\x7fELF",
            "empty.md": "",
            "app.min.js": "x",
            ".env": "SECRET=1",
            ".git/HEAD": "ref",
            "web/node_modules/a/index.js": "x",
            "web/node_modules/b/index.js": "x",
            "py/env/pyvenv.cfg": "home = /usr",
            "py/env/lib/a.py": "x",
            "rust/target/CACHEDIR.TAG": "Signature",
            "rust/target/debug.rs": "x",
        },
    )
    os.mkfifo(root / "pipe.txt")
    files, skipped = find_files(root)
    assert [file.source for file in files] == ["kept.txt"]
    assert dict(skipped) == {
        "image.PNG": "unknown kind '.PNG'",
        "LICENSE.pdf": "unknown kind '.pdf'",
        "core": "unknown kind, without a suffix",
        "empty.md": "empty",
        "app.min.js": "generated",
        ".env": "hidden",
        ".git/": "hidden",
        "web/node_modules/": "dependencies",
        "py/env/": "a virtual environment",
        "rust/target/": "a cache",
        "pipe.txt": "not a regular file",
    }


def test_a_folder_that_is_skipped_can_be_ingested_itself(tmp_path: Path) -> None:
    """What the name of the ingested folder would say is not asked."""
    write(tmp_path, {"site-packages/tool/core.py": "x = 1", ".notes/a.md": "A."})
    assert sources(tmp_path / "site-packages") == ["tool/core.py"]
    assert sources(tmp_path / ".notes") == ["a.md"]


def test_links_are_followed_only_to_files_inside(tmp_path: Path) -> None:
    """A loop ends, nothing outside is read, and no file is read twice."""
    root = write(tmp_path / "root", {"a.txt": "A.", ".data/config.md": "C."})
    write(tmp_path, {"secret.txt": "S.", "other/b.txt": "B."})
    for link, target in {
        "loop": ".",
        "other": "../other",
        "secret.txt": "../secret.txt",
        "twice.txt": "a.txt",
        "gone.txt": "nowhere.txt",
        "self.txt": "self.txt",
        "config.md": ".data/config.md",
    }.items():
        (root / link).symlink_to(target)
    files, skipped = find_files(root)
    assert [file.source for file in files] == ["a.txt", "config.md"]
    assert dict(skipped) == {
        ".data/": "hidden",
        "loop": "a link to a folder",
        "other": "a link out of the folder",
        "secret.txt": "a link out of the folder",
        "twice.txt": "a link to a file that is ingested itself",
        "gone.txt": "a broken link",
        "self.txt": "a broken link",
    }
    assert texts(root)["config.md"] == ["C."]


def test_a_file_too_large_is_not_opened(tmp_path: Path) -> None:
    """The limit is told from the listing."""
    root = write(tmp_path, {"a.txt": "A."})
    with (root / "huge.txt").open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    assert find_files(root)[1] == [("huge.txt", "too large: 67,108,865 bytes of 67,108,864; split it")]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "does not exist; check the path"),
        ("a.txt/below", "a.txt/below"),
        ("a::b", "does not exist"),
        ("empty", "it is empty; give a file or folder of text, Markdown"),
        ("images", "'1.png' is skipped (unknown kind '.png')"),
        ("images/1.png", "unknown kind '.png'"),
        ("nul\0byte", "embedded null"),
        ("long/" * 40 + "name", "long/name' does not exist"),
    ],
)
def test_nothing_to_ingest_says_what_was_looked_for(tmp_path: Path, name: str, message: str) -> None:
    """The error names the path, what was found there and what can be given."""
    write(tmp_path, {"a.txt": "A.", **{f"images/{number}.png": b"x" for number in range(9)}})
    (tmp_path / "empty").mkdir()
    with pytest.raises(NothingToIngestError) as caught:
        find_files(str(tmp_path / name))
    assert message in str(caught.value)
    assert isinstance(caught.value, FileNotFoundError)


def test_a_url_that_is_not_known_is_an_error_with_a_remedy() -> None:
    """An unknown protocol is told from one whose driver is missing."""
    with pytest.raises(NothingToIngestError, match="'nope://x' is not a URL that fsspec knows"):
        find_files("nope://x")
    with pytest.raises(NothingToIngestError, match=r"'\.' is the current folder"):
        find_files("")
    with pytest.raises(MissingExtraError, match="'dropbox://x' needs a package"):
        find_files("dropbox://x")


def test_a_strange_name_makes_a_valid_source(tmp_path: Path) -> None:
    """Names with `::`, brackets, control characters, other bytes than UTF-8, or too long for an id are read."""
    names = [
        "a::b.txt",
        "[x]*?.txt",
        "new\nline.txt",
        os.fsdecode(b"caf\xe9.txt"),
        "n" * 200 + "/" + "m" * 200 + ".md",
    ]
    root = write(tmp_path, {name: f"Text {number}." for number, name in enumerate(names)})
    readings = list(read_passages(find_files(root)[0]))
    passages = [passage for reading in readings for passage in reading.passages]
    assert sorted(passage.text for passage in passages) == [f"Text {number}." for number in range(5)]
    assert len({check_item_id(passage.id) for passage in passages}) == 5
    assert all(passage.source.encode() and "\n" not in passage.source for passage in passages)


def test_a_file_gone_before_it_is_read_is_skipped(tmp_path: Path) -> None:
    """What can't be read is said in its reading; the others are read."""
    root = write(tmp_path, {"a.txt": "A.", "b.txt": "B.", "c.txt": b"caf\xe9", "d.txt": b"\0\x01"})
    files, _ = find_files(root)
    (root / "a.txt").unlink()
    readings = {reading.file.source: reading for reading in read_passages(files)}
    assert readings["a.txt"].skipped == [("a.txt", "cannot be read: no such file or directory")]
    assert readings["c.txt"].skipped == [("c.txt", "not UTF-8 at byte 3; save it as UTF-8")]
    assert readings["d.txt"].skipped == [("d.txt", "binary")]
    assert [passage.id for passage in readings["b.txt"].passages] == ["b.txt#L1-1"]


def test_many_files_are_read_in_the_order_given(tmp_path: Path) -> None:
    """Batches keep the order, and each file has one reading."""
    root = write(tmp_path, {f"{number:03}.txt": f"Text {number}." for number in range(150)})
    files = find_files(root)[0][::-1]
    assert [reading.file for reading in read_passages(files)] == files


def test_only_what_changed_is_told_to_be_read(tmp_path: Path) -> None:
    """Stamps tell new, changed, unchanged and vanished files apart."""
    root = write(tmp_path, {"same.txt": "S.", "edited.txt": "Old.", "swapped.txt": "Old.", "gone.txt": "G."})
    known = {file.source: file.stamp for file in find_files(root)[0]}
    (root / "gone.txt").unlink()
    write(root, {"edited.txt": "Old and new.", "new.txt": "N."})
    before = (root / "swapped.txt").stat()
    write(root, {"swapped.tmp": "New."})
    os.utime(root / "swapped.tmp", ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))
    (root / "swapped.tmp").replace(root / "swapped.txt")
    found = changes(find_files(root)[0], known)
    assert [file.source for file in found.new] == ["new.txt"]
    assert [file.source for file in found.changed] == ["edited.txt", "swapped.txt"]
    assert [file.source for file in found.unchanged] == ["same.txt"]
    assert found.vanished == ("gone.txt",)


@given(
    before=st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["", "1", "2"])),
    after=st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["", "1", "2"])),
)
def test_changes_partition_what_is_found_and_known(before: dict[str, str], after: dict[str, str]) -> None:
    """Each file is in one group; a file without a stamp is never unchanged."""
    fs = fsspec.filesystem("memory")
    found = [SourceFile(source, source, Kind.TEXT, 1, stamp, fs) for source, stamp in sorted(after.items())]
    result = changes(found, before)
    assert {file.source for file in result.new} == after.keys() - before.keys()
    assert set(result.vanished) == before.keys() - after.keys()
    same = {source for source in before.keys() & after.keys() if before[source] == after[source] != ""}
    assert {file.source for file in result.unchanged} == same
    assert {file.source for file in result.changed} == (before.keys() & after.keys()) - same


@given(st.text(st.characters(exclude_characters="\0\ufeff", codec="utf-8")))
def test_text_is_decoded_from_each_encoding(text: str) -> None:
    """UTF-8 with and without a mark, and UTF-16 with one, give the same text, newlines normalised."""
    expected = text.replace("\r\n", "\n").replace("\r", "\n")
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        assert decoded(text.encode(encoding)) == expected


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.TXT", Kind.TEXT),
        ("README", Kind.TEXT),
        ("LICENSE-MIT", Kind.TEXT),
        ("README.rst", Kind.RST),
        ("Dockerfile.prod", Kind.CODE),
        ("Makefile", Kind.CODE),
        ("CMakeLists.txt", Kind.TEXT),
        ("x.tar.gz", None),
        ("a.pyc", None),
        ("package-lock.json", None),
        ("noext", None),
    ],
)
def test_a_name_tells_the_kind(name: str, kind: Kind | None) -> None:
    """The suffix first, then a well-known name."""
    assert kind_of(name) is kind


def test_a_report_reads_as_a_summary() -> None:
    """It counts what there was and names what was skipped, the first of them."""
    skipped = tuple(Skipped(f"{number}.png", "unknown kind '.png'") for number in range(12))
    report = IngestReport(new=("a", "b"), unchanged=("c",) * 1_200, skipped=skipped, items_added=7)
    assert str(report).split("\n")[:2] == [
        "files: 2 new, 1,200 unchanged, 12 skipped; items: 7 added, 0 removed",
        "  skipped 0.png: unknown kind '.png'",
    ]
    assert str(report).endswith("  and 2 more skipped")
    assert str(IngestReport()) == "files: none; items: 0 added, 0 removed"
