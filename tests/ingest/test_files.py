"""Which files are found, what is said of the others, and what ingesting again has to read."""

import os
import zipfile
from uuid import uuid4

import fsspec
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import SessionMemory
from kaosmem.errors import MissingExtraError, MissingFileError
from kaosmem.ingest.files import Skipped, SourceFile, UnreadableError, decoded_text
from kaosmem.ingest.kinds import kind_of
from kaosmem.ingest.listing import find_files
from kaosmem.ingest.passages import IngestReport, file_changes, read_passages
from kaosmem.names import check_item_id


def write(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def sources(root):
    return [file.source for file in find_files(root)[0]]


def texts(path):
    files, _ = find_files(path)
    return {
        reading.file.source: [passage.text for passage in reading.passages]
        for reading in read_passages(files)
    }


FOLDER = {
    "README": "How to read this.",
    "notes/b.md": "# B\n\nText.",
    "notes/a.txt": "One.\n\nTwo.",
    "src/main.py": "def main():\n    pass\n",
    "records.jsonl": '{"text": "hello"}\n',
}


def test_files_come_in_order_of_source(tmp_path):
    """The order is that of the paths below the folder, `/` between names, on any filesystem."""
    assert sources(write(tmp_path, FOLDER)) == [
        "README",
        "notes/a.txt",
        "notes/b.md",
        "records.jsonl",
        "src/main.py",
    ]


def test_every_filesystem_gives_the_same_passages(tmp_path):
    """A local folder, a URL in memory and a filesystem object hold the same ids and texts."""
    root = write(tmp_path, FOLDER)
    memory = fsspec.filesystem("memory")
    name = uuid4().hex
    for source, content in FOLDER.items():
        memory.pipe_file(
            f"/{name}/{source}", content.encode() if isinstance(content, str) else content
        )
    local = texts(root)
    assert len(local) == len(FOLDER)
    assert texts(str(root)) == local
    assert texts(f"memory://{name}") == local
    assert texts(DirFileSystem(f"/{name}", memory)) == local
    assert texts(DirFileSystem(str(root), fsspec.filesystem("file"))) == local


def test_one_file_is_its_own_source(tmp_path):
    """Ingesting a file names it without its folder, hidden or not."""
    root = write(tmp_path, {"notes/.plan.md": "Go."})
    assert sources(root / "notes/.plan.md") == [".plan.md"]


def test_what_is_skipped_unopened_is_named_with_its_reason(tmp_path):
    """Each media file, and each folder that is not entered, is one entry."""
    root = write(
        tmp_path,
        {
            "kept.txt": "text",
            "image.PNG": b"\x89PNG",
            "weights.bin": b"\0",
            "empty.md": "",
            "app.min.js": "x",
            "manual/searchindex.js": "x",
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
    assert {source: reason for source, reason, _ in skipped} == {
        "image.PNG": "an image",
        "weights.bin": "binary",
        "empty.md": "empty",
        "app.min.js": "generated",
        "manual/searchindex.js": "generated",
        ".env": "hidden",
        ".git/": "hidden",
        "web/node_modules/": "dependencies",
        "py/env/": "a virtual environment",
        "rust/target/": "a cache",
        "pipe.txt": "not a regular file",
    }


def test_a_folder_that_is_skipped_can_be_ingested_itself(tmp_path):
    """What the name of the ingested folder would say is not asked."""
    write(tmp_path, {"site-packages/tool/core.py": "x = 1", ".notes/a.md": "A."})
    assert sources(tmp_path / "site-packages") == ["tool/core.py"]
    assert sources(tmp_path / ".notes") == ["a.md"]


def test_no_link_is_followed(tmp_path):
    """A loop ends, nothing outside is read, and no file is read twice."""
    root = write(tmp_path / "root", {"a.txt": "A.", ".data/config.md": "C."})
    write(tmp_path, {"secret.txt": "S.", "other/b.txt": "B."})
    links = {
        "loop": ".",
        "other": "../other",
        "secret.txt": "../secret.txt",
        "twice.txt": "a.txt",
        "gone.txt": "nowhere.txt",
        "self.txt": "self.txt",
        "config.md": ".data/config.md",
    }
    for link, target in links.items():
        (root / link).symlink_to(target)
    files, skipped = find_files(root)
    assert [file.source for file in files] == ["a.txt"]
    expected = {".data/": "hidden", **dict.fromkeys(links, "a link")}
    assert {source.rstrip("/"): reason for source, reason, _ in skipped} == {
        source.rstrip("/"): reason for source, reason in expected.items()
    }


def test_a_file_too_large_is_not_opened(tmp_path):
    """The limit is told from the listing."""
    root = write(tmp_path, {"a.txt": "A."})
    with (root / "huge.txt").open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    assert find_files(root)[1] == [
        ("huge.txt", "too large", "67,108,865 bytes of 67,108,864; split it")
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "does not exist; check the path"),
        ("a.txt/below", "a.txt/below"),
        ("a::b", "does not exist"),
        ("empty", "it is empty; give a file or folder of text, source code"),
        ("images", "'1.png' is skipped (an image)"),
        ("images/1.png", "an image"),
        ("nul\0byte", "embedded null"),
        ("long/" * 40 + "name", "long/name' does not exist"),
    ],
)
async def test_nothing_to_ingest_says_what_was_looked_for(tmp_path, name, message):
    """The error names the path, what was found there and what can be given."""
    write(tmp_path, {"a.txt": "A.", **{f"images/{number}.png": b"x" for number in range(9)}})
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingFileError) as caught:
        await SessionMemory.test_mode().ingest(str(tmp_path / name))
    assert message in str(caught.value)
    assert isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize(
    "place", ["ftp://127.0.0.1:1/x", "zip:///::{}/no.zip", "zip:///::{}/a.txt"]
)
def test_a_place_that_cannot_be_read_is_named(tmp_path, place):
    """A server that does not answer, a missing archive and a file that is none are typed errors."""
    write(tmp_path, {"a.txt": "A."})
    with pytest.raises(MissingFileError, match="cannot be read"):
        find_files(place.format(tmp_path))


def test_an_archive_is_to_be_unpacked(tmp_path):
    """It may expand to any size, so none of its files is read."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.txt", b"A text.")
    with pytest.raises(MissingFileError, match="is an archive; unpack it"):
        find_files(f"zip:///::{tmp_path}/a.zip")


def test_a_url_that_is_not_known_is_an_error_with_a_remedy():
    """An unknown protocol is told from one whose driver is missing."""
    with pytest.raises(MissingFileError, match="'nope://x' is not a URL that fsspec knows"):
        find_files("nope://x")
    with pytest.raises(MissingFileError, match=r"'\.' is the current folder"):
        find_files("")
    with pytest.raises(MissingExtraError, match="'dropbox://x' needs a package"):
        find_files("dropbox://x")


@pytest.mark.skipif(os.name == "nt", reason="a working directory can't be deleted there")
def test_a_path_relative_to_a_deleted_folder_is_named(tmp_path, monkeypatch):
    """A relative path cannot be read once the working directory is gone."""
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(
        MissingFileError, match="relative to a folder that was deleted; give an absolute path"
    ):
        find_files("contracts")


def test_a_strange_name_makes_a_valid_source(tmp_path):
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
    assert sorted(passage.text for passage in passages) == [
        f"Text {number}." for number in range(5)
    ]
    assert len({check_item_id(passage.id) for passage in passages}) == 5
    assert all(passage.source.encode() and "\n" not in passage.source for passage in passages)


def test_a_file_gone_before_it_is_read_is_skipped(tmp_path):
    """What can't be read is said in its reading; the others are read."""
    root = write(tmp_path, {"a.txt": "A.", "b.txt": "B.", "c.txt": b"caf\xe9", "d.txt": b"\0\x01"})
    files, _ = find_files(root)
    (root / "a.txt").unlink()
    readings = {reading.file.source: reading for reading in read_passages(files)}
    assert readings["a.txt"].skipped == [("a.txt", "cannot be read", "no such file or directory")]
    assert readings["c.txt"].skipped == [("c.txt", "not UTF-8", "at byte 3; save it as UTF-8")]
    assert readings["d.txt"].skipped == [("d.txt", "binary", "")]
    assert [passage.id for passage in readings["b.txt"].passages] == ["b.txt#L1-1"]


def test_many_files_are_read_in_the_order_given(tmp_path):
    """Batches keep the order, and each file has one reading."""
    root = write(tmp_path, {f"{number:03}.txt": f"Text {number}." for number in range(150)})
    files = find_files(root)[0][::-1]
    assert [reading.file for reading in read_passages(files)] == files


@given(
    before=st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["", "1", "2"])),
    after=st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["", "1", "2"])),
)
def test_changes_partition_what_is_found_and_known(before, after):
    """Each file is in one group; a file without a stamp is never unchanged."""
    fs = fsspec.filesystem("memory")
    found = [SourceFile(source, source, 1, stamp, fs) for source, stamp in sorted(after.items())]
    result = file_changes(found, before)
    assert {file.source for file in result.new} == after.keys() - before.keys()
    assert set(result.vanished) == before.keys() - after.keys()
    same = {
        source for source in before.keys() & after.keys() if before[source] == after[source] != ""
    }
    assert {file.source for file in result.unchanged} == same
    assert {file.source for file in result.changed} == (before.keys() & after.keys()) - same


@given(st.text(st.characters(exclude_characters="\0\ufeff", codec="utf-8")))
def test_text_is_decoded_from_each_encoding(text):
    """UTF-8 with and without a mark, and UTF-16 with one, give the same text, newlines normalised."""
    expected = text.replace("\r\n", "\n").replace("\r", "\n")
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        assert decoded_text(text.encode(encoding)) == expected


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.TXT", "", "text"),
        ("README", "", "text"),
        ("Apache-2.0", "Apache License", "text"),
        ("CHANGES.1", "Version 1", "text"),
        ("LICENSE.pdf", "", "PDF"),
        ("LICENSE-MIT", "", "text"),
        ("README.rst", "", "text"),
        ("index.rst.txt", "", "text"),
        ("settings.py.orig", "", "text"),
        ("Dockerfile.prod", "FROM x", "code"),
        ("Makefile", "", "code"),
        ("CMakeLists.txt", "", "text"),
        ("noext", "", "text"),
        ("noext", "#!/usr/bin/env python3.12 -u\n", "code"),
        ("noext", "#! /bin/sh\n", "code"),
        ("noext", "<?xml version='1.0'?>\n<!DOCTYPE html>", "HTML"),
        ("noext", "<?xml version='1.0'?>\n<a/>", "code"),
        ("git-log.1", ".TH GIT 1\n", "text"),
        ("perlfoo.pod", "=head1 NAME\n", "text"),
        ("inbox", "From a@b.c Mon Jan  1 00:00:00 2024\nSubject: x\n", "mailbox"),
        ("report.txt", "%PDF-1.7\n", "PDF"),
        ("a.docx", "PK\x03\x04", "document"),
    ],
)
def test_content_and_name_tell_the_kind(name, content, kind):
    """The first bytes tell before the suffix, and the first lines before a well-known name."""
    assert kind_of(name, content.encode()).name == kind


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.txt", b"\x7fELF", "compiled code"),
        ("a.doc", b"\xd0\xcf\x11\xe0", "an old Office document"),
        (
            "a.docx",
            b"\xd0\xcf\x11\xe0" + "EncryptedPackage".encode("utf-16-le"),
            "password-protected",
        ),
        ("a.tar", b"name".ljust(257, b"\0") + b"ustar", "an archive"),
        ("a.md", b"%!PS-Adobe", "PostScript"),
    ],
)
def test_what_can_not_be_read_is_recognised(name, content, reason):
    """Whatever the name says."""
    with pytest.raises(UnreadableError) as caught:
        kind_of(name, content)
    assert caught.value.reason == reason


def test_other_encodings_are_read_where_they_are_certain():
    """A declared charset counts; few bytes outside UTF-8 are Windows-1252, line by line; many are refused."""
    assert (
        decoded_text("# coding: koi8-r\n# Привет\n".encode("koi8-r"))
        == "# coding: koi8-r\n# Привет\n"
    )
    assert decoded_text(b"# coding: latin-1\n# 5 \x80, caf\xe9\n").endswith("# 5 €, café\n")
    mixed = b"plain English words\n" * 30 + "Jürgen\n".encode() + "Ren\xe9\n".encode("latin-1")
    assert decoded_text(mixed).endswith("Jürgen\nRené\n")
    with pytest.raises(UnreadableError):
        decoded_text("Привет, как дела".encode("koi8-r"))
    with pytest.raises(UnreadableError):
        decoded_text(b"# coding: punycode\n\xff")


SKIPPED = (
    *(Skipped(f"{number}.png", "an image") for number in range(12)),
    Skipped("a.txt", "not UTF-8", "at byte 3; save it as UTF-8"),
)


def test_a_report_of_many_files_is_one_line():
    """Its repr has no names of files."""
    many = tuple(f"folder/file {number}.md" for number in range(10_000))
    report = IngestReport(new=many, skipped=SKIPPED, items_added=10_000)
    assert repr(report) == "IngestReport(10,000 new, 13 skipped; items: 10,000 added, 0 removed)"
